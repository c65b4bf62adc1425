//! Records of real workflows as jobs of a common form.
//!
//! - `nfcore-sizey/WORKFLOW.csv.gz` with columns process, submit, complete, realtime (ms), memory, rss, peak_rss, rchar
//!   (bytes); `WORKFLOW.splits.csv.gz` with seed, phase (train, test), row in the published order;
//!   `WORKFLOW.baselines.csv` with seed, method, waste_gbh, failures of other methods in that order.
//! - `nf-timeseries/WORKFLOW.instances.csv.gz` with columns task, t0_unix, seconds, input_bytes, mem_req_bytes,
//!   mem_peak_mb, and id; `WORKFLOW.series.txt.gz` with a line a job: the id, then `DT:MB:CPU` a sample, DT being tenths
//!   of a second since the sample before.
//!
//! A set without its files is left out; a file without these columns is an error.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

use super::read;

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Job {
    pub(super) class: String,
    /// The times of submission and end, in seconds.
    pub(super) times: Option<(f64, f64)>,
    pub(super) train: bool,
    /// The size of its input, in bytes.
    pub(super) input: Option<f64>,
    /// In GB.
    pub(super) request: Option<f64>,
    /// In GB.
    pub(super) peak: f64,
    pub(super) hours: f64,
}

/// Jobs in the order of the records.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Set {
    pub(super) name: String,
    pub(super) jobs: Vec<Job>,
}

/// A workflow in the published orders, a set a seed.
#[derive(Debug)]
pub(super) struct Workflow {
    pub(super) name: String,
    pub(super) seeds: Vec<Set>,
    /// Other methods: GB x hours and failures, means over the seeds.
    pub(super) published: Vec<(String, (f64, f64))>,
}

impl Set {
    /// The table that `pinfold advise replay` reads.
    pub(super) fn table(&self) -> String {
        let mut text = "class,submit_s,end_s,train,input_bytes,request_bytes,peak_bytes,wall_s\n".to_owned();
        let told = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        for job in &self.jobs {
            text.push_str(&format!(
                "\"{}\",{},{},{},{},{},{},{}\n",
                job.class.replace('"', "\"\""),
                told(job.times.map(|times| times.0)),
                told(job.times.map(|times| times.1)),
                u8::from(job.train),
                told(job.input),
                told(job.request.map(|gb| (gb * 1e9).round())),
                (job.peak * 1e9).round(),
                job.hours * 3600.0
            ));
        }
        text
    }
}

/// Lines of a table, as cells by the names of their columns.
struct Rows<'a> {
    places: BTreeMap<&'a str, usize>,
    lines: std::str::Lines<'a>,
}

impl<'a> Rows<'a> {
    fn new(text: &'a str, needed: &[&str]) -> anyhow::Result<Self> {
        let mut lines = text.lines();
        let head = lines.next().context("it is empty")?;
        let places: BTreeMap<&str, usize> =
            head.split(',').enumerate().map(|(at, name)| (name, at)).collect();
        match needed.iter().find(|name| !places.contains_key(**name)) {
            Some(name) => anyhow::bail!("it has no column {name}"),
            None => Ok(Self { places, lines }),
        }
    }

    /// The next line's cells; a missing cell is empty.
    fn next(&mut self) -> Option<impl Fn(&str) -> &'a str + '_> {
        let cells: Vec<&str> = self.lines.next()?.split(',').collect();
        let places = &self.places;
        Some(move |name: &str| places.get(name).and_then(|&at| cells.get(at)).copied().unwrap_or(""))
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn positive(text: &str) -> Option<f64> {
    number(text).filter(|&number| number > 0.0)
}

/// The names before `suffix` of the files of a directory, in order; none if it is not there.
fn names(directory: &Path, suffix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(suffix).map(str::to_owned))
        .collect();
    names.sort();
    names
}

fn within<T>(path: &Path, done: anyhow::Result<T>) -> anyhow::Result<T> {
    done.with_context(|| path.display().to_string())
}

/// The workflows of `nfcore-sizey`, shuffled as published.
pub(super) fn shuffled(data: &Path) -> anyhow::Result<Vec<Workflow>> {
    let directory = data.join("nfcore-sizey");
    let mut workflows = Vec::new();
    for name in names(&directory, ".splits.csv.gz") {
        let [tasks, splits, published] = [".csv.gz", ".splits.csv.gz", ".baselines.csv"]
            .map(|ending| directory.join(format!("{name}{ending}")));
        let jobs = within(&tasks, tasks_of(&read(&tasks)?, "rss"))?;
        let seeds = within(&splits, seeds_of(&name, &read(&splits)?, &jobs))?;
        let published = within(&published, published_of(&read(&published)?))?;
        workflows.push(Workflow { name, seeds, published });
    }
    Ok(workflows)
}

/// All sets in the order of time, from `nfcore-sizey` and from `nf-timeseries`.
pub(super) fn timed(data: &Path) -> anyhow::Result<Vec<Set>> {
    let mut sets = Vec::new();
    let directory = data.join("nfcore-sizey");
    for name in names(&directory, ".splits.csv.gz") {
        let path = directory.join(format!("{name}.csv.gz"));
        let mut jobs: Vec<Job> = within(&path, tasks_of(&read(&path)?, "peak_rss"))?.into_values().collect();
        jobs.retain(|job| job.peak > 0.0 && job.hours > 0.0 && job.times.is_some());
        sets.push(Set { name: format!("nf-core {name}"), jobs });
    }
    let directory = data.join("nf-timeseries");
    for name in names(&directory, ".instances.csv.gz") {
        let path = directory.join(format!("{name}.instances.csv.gz"));
        let jobs = within(&path, instances_of(&read(&path)?))?.into_iter().map(|(_, job)| job).collect();
        sets.push(Set { name: format!("series {name}"), jobs });
    }
    for set in &mut sets {
        set.jobs.sort_by(|a, b| submitted(a).total_cmp(&submitted(b)));
    }
    Ok(sets)
}

fn submitted(job: &Job) -> f64 {
    job.times.map_or(0.0, |times| times.0)
}

/// Tasks by their row, `peak` naming the column of the peak.
fn tasks_of(text: &str, peak: &str) -> anyhow::Result<BTreeMap<u64, Job>> {
    let mut rows =
        Rows::new(text, &["row", "process", "submit", "complete", "realtime", "memory", "rchar", peak])?;
    let mut jobs = BTreeMap::new();
    while let Some(cell) = rows.next() {
        let times = number(cell("submit")).zip(number(cell("complete")));
        let job = Job {
            class: cell("process").to_owned(),
            times: times.map(|(submit, end)| (submit / 1e3, end / 1e3)),
            train: false,
            input: number(cell("rchar")),
            request: positive(cell("memory")).map(|bytes| bytes / 1e9),
            peak: number(cell(peak)).unwrap_or(0.0) / 1e9,
            hours: number(cell("realtime")).unwrap_or(0.0) / 3.6e6,
        };
        jobs.insert(cell("row").parse().context("row is no number")?, job);
    }
    Ok(jobs)
}

fn seeds_of(name: &str, text: &str, jobs: &BTreeMap<u64, Job>) -> anyhow::Result<Vec<Set>> {
    let mut rows = Rows::new(text, &["seed", "phase", "row"])?;
    // The training runs first; the others in the order of the file.
    let mut seeds: BTreeMap<String, [Vec<Job>; 2]> = BTreeMap::new();
    while let Some(cell) = rows.next() {
        let row: u64 = cell("row").parse().context("row is no number")?;
        let job = jobs.get(&row).with_context(|| format!("there is no task {row}"))?;
        let train = cell("phase") == "train";
        let job = Job { times: None, train, ..job.clone() };
        seeds.entry(cell("seed").to_owned()).or_default()[usize::from(!train)].push(job);
    }
    let set = |(seed, [train, test]): (String, [Vec<Job>; 2])| Set {
        name: format!("{name}, seed {seed}"),
        jobs: train.into_iter().chain(test).collect(),
    };
    Ok(seeds.into_iter().map(set).collect())
}

fn published_of(text: &str) -> anyhow::Result<Vec<(String, (f64, f64))>> {
    let mut rows = Rows::new(text, &["seed", "method", "waste_gbh", "failures"])?;
    let mut methods: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let mut seeds = std::collections::BTreeSet::new();
    while let Some(cell) = rows.next() {
        seeds.insert(cell("seed").to_owned());
        let sums = methods.entry(cell("method").to_owned()).or_default();
        sums.0 += number(cell("waste_gbh")).unwrap_or(0.0);
        sums.1 += number(cell("failures")).unwrap_or(0.0);
    }
    // The column of the jobs' own use is no method.
    methods.remove("usage");
    let count = seeds.len().max(1) as f64;
    Ok(methods.into_iter().map(|(name, (waste, failed))| (name, (waste / count, failed / count))).collect())
}

/// Jobs with their ids.
fn instances_of(text: &str) -> anyhow::Result<Vec<(String, Job)>> {
    let needed = ["id", "task", "t0_unix", "seconds", "input_bytes", "mem_req_bytes", "mem_peak_mb"];
    let mut rows = Rows::new(text, &needed)?;
    let mut jobs = Vec::new();
    while let Some(cell) = rows.next() {
        let (Some(peak), Some(start), Some(seconds)) =
            (positive(cell("mem_peak_mb")), number(cell("t0_unix")), number(cell("seconds")))
        else {
            continue;
        };
        // The first and the last sample are up to two seconds within the run.
        let seconds = seconds + 2.0;
        let job = Job {
            class: cell("task").to_owned(),
            times: Some((start, start + seconds)),
            train: false,
            input: number(cell("input_bytes")),
            request: positive(cell("mem_req_bytes")).map(|bytes| bytes / 1e9),
            peak: peak / 1e3,
            hours: seconds / 3600.0,
        };
        jobs.push((cell("id").to_owned(), job));
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_splits() {
        let text = "row,process,submit,complete,realtime,memory,rss,peak_rss,rchar\n\
                    0,a,1000,5000,3600000,8000000000,1000000000,2000000000,7\n\
                    1,b,2000,9000,-,-,-,-,-\n";
        let jobs = tasks_of(text, "peak_rss").unwrap();
        let want = Job {
            class: "a".to_owned(),
            times: Some((1.0, 5.0)),
            train: false,
            input: Some(7.0),
            request: Some(8.0),
            peak: 2.0,
            hours: 1.0,
        };
        assert_eq!(jobs[&0], want);
        assert_eq!((jobs[&1].peak, jobs[&1].request, jobs[&1].input), (0.0, None, None));
        let splits = "seed,process,phase,pos,row\n1,a,test,0,0\n1,a,train,0,1\n";
        let seeds = seeds_of("w", splits, &jobs).unwrap();
        assert_eq!(seeds[0].name, "w, seed 1");
        assert_eq!(seeds[0].jobs.iter().map(|job| job.train).collect::<Vec<_>>(), [true, false]);
        assert_eq!(seeds[0].table().lines().nth(2), Some("\"a\",,,0,7,8000000000,2000000000,3600"));
        assert!(seeds_of("w", "seed,phase,row\n1,test,9\n", &jobs).is_err());
        assert!(tasks_of("row,process\n", "rss").unwrap_err().to_string().contains("no column submit"));
        assert!(tasks_of("", "rss").is_err());
    }

    #[test]
    fn instances_and_what_others_came_to() {
        let text = "id,task,t0_unix,seconds,input_bytes,mem_req_bytes,mem_peak_mb\n\
                    7,a,100.5,3598,5,2000000000,1500\n8,b,1,2,3,,0\n";
        let jobs = instances_of(text).unwrap();
        assert_eq!(jobs.len(), 1, "nothing was measured of the other");
        let (id, job) = &jobs[0];
        assert_eq!((job.times, job.peak, job.hours), (Some((100.5, 3700.5)), 1.5, 1.0));
        assert_eq!(id, "7");
        let text = "seed,method,waste_gbh,failures\n1,T,2,4\n1,T,1,0\n2,T,5,0\n2,usage,9,0\n";
        assert_eq!(published_of(text).unwrap(), [("T".to_owned(), (4.0, 2.0))]);
    }

    #[test]
    fn sets_that_are_not_there_are_left_out() {
        let empty = tempfile::tempdir().unwrap();
        assert!(shuffled(empty.path()).unwrap().is_empty() && timed(empty.path()).unwrap().is_empty());
        std::fs::create_dir(empty.path().join("nf-timeseries")).unwrap();
        std::fs::write(empty.path().join("nf-timeseries/x.instances.csv.gz"), "no archive").unwrap();
        assert!(format!("{:#}", timed(empty.path()).unwrap_err()).contains("x.instances.csv.gz"));
    }
}
