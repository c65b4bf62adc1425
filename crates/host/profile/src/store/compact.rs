//! Keeps the store small: samples of ended jobs are packed into blocks, then thinned to minutes and later to hours.
//! `meta` stores the progress, so that each call reads only the next jobs. Absent here: the format of a block, and
//! the removal of jobs.

use rusqlite::{Connection, OptionalExtension};

use super::fields::whole;
use super::{blocks, rows};
use pinfold_proto::row::SampleRow;

/// Age after a job's end at which samples are packed: plots per second are rare by then.
pub const PACK_AFTER_US: u64 = 600_000_000;
/// Age at which samples are thinned to minutes.
pub const MINUTES_AFTER_US: u64 = 7 * 86_400_000_000;
/// Age at which samples are thinned to hours.
pub const HOURS_AFTER_US: u64 = 30 * 86_400_000_000;

/// Most jobs per call, to keep the caller's loop responsive: some 10 ms.
const JOBS_MAX: i64 = 16;
/// Most samples per call.
const SAMPLES_MAX: usize = 4_000;

/// Result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compacted {
    /// Jobs with packed or thinned samples.
    pub jobs: u32,
    /// Whether more jobs remain: call again.
    pub more: bool,
}

/// Packs old samples, and thins older samples.
pub(super) fn compact(connection: &Connection, now_us: u64) -> rusqlite::Result<Compacted> {
    let mut done = Compacted::default();
    for (mark, after_us, step_us) in [
        ("packed_until_us", PACK_AFTER_US, 0),
        ("minutes_until_us", MINUTES_AFTER_US, 60_000_000),
        ("hours_until_us", HOURS_AFTER_US, 3_600_000_000),
    ] {
        let until: i64 = connection
            .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
            .query_row([mark], |row| row.get(0))
            .optional()?
            .unwrap_or(0);
        let jobs: Vec<(i64, i64)> = connection
            .prepare_cached(
                "SELECT job, ended_us FROM jobs WHERE state = 'exited' AND ended_us > ?1 AND ended_us <= ?2 \
                 ORDER BY ended_us LIMIT ?3",
            )?
            .query_map((until, whole(now_us.saturating_sub(after_us)), JOBS_MAX), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?
            .collect::<rusqlite::Result<_>>()?;
        let Some(&(_, last_us)) = jobs.last() else { continue };
        // Jobs with the same end as the last job must stay together: with earlier jobs before them they wait for the
        // next call, otherwise all are taken.
        let full = i64::try_from(jobs.len()).unwrap_or(0) == JOBS_MAX;
        let same = full && jobs[0].1 == last_us;
        let jobs = if same { ended_at(connection, last_us)? } else { jobs };
        let mut mark_us = if full && !same { last_us - 1 } else { last_us };
        let (mut samples, mut cut) = (0, None);
        for &(job, ended_us) in jobs.iter().filter(|(_, ended_us)| *ended_us <= mark_us) {
            // A few long jobs have as many samples as many short jobs.
            if samples >= SAMPLES_MAX && cut != Some(ended_us) {
                mark_us = cut.unwrap_or(mark_us);
                done.more = true;
                break;
            }
            let job = u64::try_from(job).unwrap_or(0);
            samples += if step_us == 0 { pack(connection, job, 0)? } else { thin(connection, job, step_us)? };
            cut = Some(ended_us);
            done.jobs += 1;
        }
        connection
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?
            .execute((mark, mark_us))?;
        done.more |= full;
    }
    Ok(done)
}

fn ended_at(connection: &Connection, ended_us: i64) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut select = connection.prepare_cached(
        "SELECT job, ended_us FROM jobs WHERE state = 'exited' AND ended_us = ?1 ORDER BY job",
    )?;
    select.query_map([ended_us], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Packs a job's samples but the last `keep`; gives how many.
pub(super) fn pack(connection: &Connection, job: u64, keep: usize) -> rusqlite::Result<usize> {
    let samples = loose(connection, job)?;
    let packed = &samples[..samples.len().saturating_sub(keep)];
    let Some(last) = packed.last() else { return Ok(0) };
    put(connection, job, packed, 0)?;
    connection
        .prepare_cached("DELETE FROM samples WHERE job = ?1 AND time_us <= ?2")?
        .execute((whole(job), whole(last.time_us)))?;
    Ok(packed.len())
}

/// Thins a job's packed samples; returns their number before.
pub(super) fn thin(connection: &Connection, job: u64, step_us: u64) -> rusqlite::Result<usize> {
    let samples = packed(connection, job)?;
    let thinned = blocks::thinned(&samples, step_us);
    if thinned.len() == samples.len() {
        // Thinning removes no sample; note that it was tried.
        let sql = "UPDATE blocks SET step_us = ?2 WHERE job = ?1 AND step_us < ?2";
        connection.prepare_cached(sql)?.execute((whole(job), whole(step_us)))?;
        return Ok(samples.len());
    }
    connection.prepare_cached("DELETE FROM blocks WHERE job = ?1")?.execute([whole(job)])?;
    put(connection, job, &thinned, step_us)?;
    Ok(samples.len())
}

fn put(connection: &Connection, job: u64, samples: &[SampleRow], step_us: u64) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO blocks (job, first_us, last_us, step_us, samples, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for block in samples.chunks(blocks::SAMPLES_MAX) {
        let (first, last) = (&block[0], &block[block.len() - 1]);
        let count = whole(block.len() as u64);
        insert.execute((
            whole(job),
            whole(first.time_us),
            whole(last.time_us),
            whole(step_us),
            count,
            blocks::pack(block),
        ))?;
    }
    Ok(())
}

/// Samples stored as rows.
pub(super) fn loose(connection: &Connection, job: u64) -> rusqlite::Result<Vec<SampleRow>> {
    let sql = format!("SELECT {} FROM samples WHERE job = ?1 ORDER BY time_us", rows::SAMPLE.join(","));
    connection.prepare_cached(&sql)?.query_map([whole(job)], rows::read_sample)?.collect()
}

/// Samples stored in blocks; a damaged block is skipped, and [`super::Store::check`] reports it.
pub(super) fn packed(connection: &Connection, job: u64) -> rusqlite::Result<Vec<SampleRow>> {
    let mut select = connection.prepare_cached("SELECT data FROM blocks WHERE job = ?1 ORDER BY first_us")?;
    let blocks = select.query_map([whole(job)], |row| row.get::<_, Vec<u8>>(0))?;
    let mut samples = Vec::new();
    for block in blocks {
        samples.extend(blocks::unpack(job, &block?).unwrap_or_default());
    }
    Ok(samples)
}

/// A reader's position in a job's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    job: u64,
    /// Time of the last sample read; -1 before the first.
    behind_us: i64,
}

impl Place {
    /// Before the first sample of a job.
    #[must_use]
    pub const fn first(job: u64) -> Self {
        Self { job, behind_us: -1 }
    }
}

/// The samples of the next block, or else the next samples stored as rows.
pub(super) fn following(
    connection: &Connection,
    place: &mut Place,
    most: usize,
) -> rusqlite::Result<Option<Vec<SampleRow>>> {
    let sql = "SELECT last_us, data FROM blocks WHERE job = ?1 AND first_us > ?2 ORDER BY first_us LIMIT 1";
    let block: Option<(i64, Vec<u8>)> = connection
        .prepare_cached(sql)?
        .query_row((whole(place.job), place.behind_us), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((last_us, data)) = block {
        // An overwritten block may claim to end before its start.
        place.behind_us = last_us.max(place.behind_us + 1);
        return Ok(Some(blocks::unpack(place.job, &data).unwrap_or_default()));
    }
    let sql = format!(
        "SELECT {} FROM samples WHERE job = ?1 AND time_us > ?2 ORDER BY time_us LIMIT ?3",
        rows::SAMPLE.join(",")
    );
    let samples: Vec<SampleRow> = connection
        .prepare_cached(&sql)?
        .query_map((whole(place.job), place.behind_us, whole(most as u64)), rows::read_sample)?
        .collect::<rusqlite::Result<_>>()?;
    let Some(last) = samples.last() else { return Ok(None) };
    place.behind_us = whole(last.time_us);
    Ok(Some(samples))
}

/// The last two samples up to a time: from rows, and if these are fewer from the last blocks.
pub(super) fn until(connection: &Connection, job: u64, at_us: u64) -> rusqlite::Result<Vec<SampleRow>> {
    let sql = format!(
        "SELECT {} FROM samples WHERE job = ?1 AND time_us <= ?2 ORDER BY time_us DESC LIMIT 2",
        rows::SAMPLE.join(",")
    );
    let key = (whole(job), whole(at_us));
    let mut found: Vec<SampleRow> = connection
        .prepare_cached(&sql)?
        .query_map(key, rows::read_sample)?
        .collect::<rusqlite::Result<_>>()?;
    found.reverse();
    let sql = "SELECT data FROM blocks WHERE job = ?1 AND first_us <= ?2 ORDER BY first_us DESC LIMIT 2";
    let mut select = connection.prepare_cached(sql)?;
    let mut blocks = select.query(key)?;
    while found.len() < 2
        && let Some(block) = blocks.next()?
    {
        let data: Vec<u8> = block.get(0)?;
        let mut before = blocks::unpack(job, &data).unwrap_or_default();
        before.retain(|sample| sample.time_us <= at_us);
        before.extend(found);
        found = before.split_off(before.len().saturating_sub(2));
    }
    Ok(found)
}

/// How many samples stand in blocks, and how many blocks cannot be read.
pub(super) fn count(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    let mut select = connection.prepare("SELECT job, data FROM blocks")?;
    let mut found = select.query([])?;
    let (mut samples, mut broken) = (0, 0);
    while let Some(row) = found.next()? {
        let (job, data): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
        match blocks::unpack(u64::try_from(job).unwrap_or(0), &data) {
            Some(block) => samples += block.len() as u64,
            None => broken += 1,
        }
    }
    Ok((samples, broken))
}
