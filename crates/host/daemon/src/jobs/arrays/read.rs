//! What is read of arrays and jobs for one request, or as all jobs are known again: each once, however often it is named.
//!
//! No index of the store finds one member of an array, so an array is read whole. Owns what was read, and how much that
//! was; it holds as long as no job changes. Absent here: members that are not over, which the table of jobs finds.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pinfold_policy::JobId;
use pinfold_profile::store::Brief;
use pinfold_proto::array::MEMBERS_MAX;
use pinfold_proto::row::JobRow;
use pinfold_proto::wire::ErrorCode;

use crate::clients::cost::NAMED_MAX;
use crate::core::{Refusal, store_failed};
use crate::store::journal::Journal;

/// The members of an array by index and number, each with whether it ended well; `None`: it was not over as it was written.
pub(super) type Members = BTreeMap<(u32, u64), Option<bool>>;

/// Members by array, each with its index, its number and whether it ended well.
type Ended = BTreeMap<u64, Vec<((u32, u64), bool)>>;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct ArraysRead {
    bounded: bool,
    arrays: BTreeMap<u64, Members>,
    jobs: BTreeMap<u64, Option<Brief>>,
    /// The members of each array whose last row is about to be written: thousands, while the disk refuses.
    unwritten: Option<Ended>,
    /// How many members were read, wanted or not.
    pub(super) rows: usize,
    /// How many jobs the conditions so far are about.
    pub(super) jobs_named: usize,
}

impl ArraysRead {
    /// For one request, which may have only so much read.
    pub(crate) fn for_request() -> Self {
        Self { bounded: true, ..Self::default() }
    }

    /// For the jobs of an earlier life, all of which were let in.
    pub(crate) fn for_restore() -> Self {
        Self::default()
    }

    /// Why the request is refused, if it takes too much.
    pub(crate) fn refusal(&self) -> Result<(), Refusal> {
        let text = if !self.bounded {
            return Ok(());
        } else if self.rows > NAMED_MAX {
            format!("the arrays named have more than {NAMED_MAX} members; name fewer")
        } else if self.jobs_named > MEMBERS_MAX {
            format!("--after: conditions about more than {MEMBERS_MAX} jobs; name fewer")
        } else {
            return Ok(());
        };
        Err((ErrorCode::Usage, text))
    }

    /// A condition is about so many jobs more.
    pub(super) fn names_jobs(&mut self, count: usize) {
        self.jobs_named += count;
    }

    /// The members of an array that the store has, or is about to have.
    ///
    /// # Errors
    /// When the store cannot be read: that no member failed must not follow from that.
    pub(super) fn members(&mut self, journal: &mut Journal, array: u64) -> Result<&Members, Refusal> {
        let Self { arrays, unwritten, rows, .. } = self;
        let place = match arrays.entry(array) {
            Entry::Occupied(known) => return Ok(known.into_mut()),
            Entry::Vacant(place) => place,
        };
        let stored = journal.store().members(array).map_err(|error| store_failed(&error))?;
        let mut all: Members = stored.into_iter().map(|(index, job, well)| ((index, job), well)).collect();
        let over = unwritten.get_or_insert_with(|| by_array(journal)).get(&array);
        all.extend(over.into_iter().flatten().map(|&(member, well)| (member, Some(well))));
        *rows += all.len();
        Ok(place.insert(all))
    }

    /// A job that is over; `None`: there never was one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn job(&mut self, journal: &mut Journal, job: u64) -> Result<Option<&Brief>, Refusal> {
        let place = match self.jobs.entry(job) {
            Entry::Occupied(known) => return Ok(known.into_mut().as_ref()),
            Entry::Vacant(place) => place,
        };
        let found = match journal.unwritten(JobId(job)).map(brief) {
            Some(over) => Some(over),
            None => journal.store().brief(job).map_err(|error| store_failed(&error))?,
        };
        Ok(place.insert(found).as_ref())
    }
}

fn brief(row: &JobRow) -> Brief {
    Brief {
        uid: row.uid,
        project: row.spec.project.clone(),
        is_first: is_first(row),
        ended_well: row.ended_well(),
    }
}

/// Whether an array has its number from this job.
pub(super) fn is_first(row: &JobRow) -> bool {
    row.spec.array.is_some_and(|place| place.array == Some(row.job))
}

/// The members whose last row is about to be written.
fn by_array(journal: &Journal) -> Ended {
    let mut all = Ended::new();
    for row in journal.all_unwritten() {
        let Some(place) = row.spec.array else { continue };
        if let Some(array) = place.array {
            all.entry(array).or_default().push(((place.index, row.job), row.ended_well()));
        }
    }
    all
}
