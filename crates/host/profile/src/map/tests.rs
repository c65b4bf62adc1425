//! Maps of machines of 2, 64 and 1,024 PUs, with jobs on them.

use pinfold_proto::view::{ChunkView, MapView, SetAsideView, SetKind, SetView};
use pinfold_proto::{JobClass, JobState};
use pinfold_topo::facts::Facts;
use pinfold_topo::{NumaNode, PuOs};

use super::*;

/// Sockets, NUMA nodes in each, L3 caches in each, cores in each, threads in each.
fn machine([sockets, nodes, caches, cores, threads]: [u32; 5]) -> Topology {
    let mut facts = Facts::default();
    let mut next = 0;
    for _ in 0..sockets {
        let socket = next;
        for _ in 0..nodes {
            let node = next;
            for _ in 0..caches {
                let cache = next;
                for _ in 0..cores {
                    facts.cores.push((next..next + threads).map(PuOs).collect());
                    next += threads;
                }
                facts.l3.push((cache..next).map(PuOs).collect());
            }
            let os = u32::try_from(facts.numa.len()).unwrap();
            facts.numa.push(NumaNode { os, memory_bytes: None, pus: (node..next).map(PuOs).collect() });
        }
        facts.sockets.push((socket..next).map(PuOs).collect());
    }
    facts.pus = (0..next).map(PuOs).collect();
    facts.assemble().unwrap()
}

fn set(job: u64, cpus: &str, class: JobClass) -> SetView {
    SetView {
        set: format!("job-{job}"),
        cpus: cpus.to_owned(),
        cores: 0,
        shared: class == JobClass::Backfill,
        job: Some(job),
        name: Some("velvetg".to_owned()),
        user: Some("ada".to_owned()),
        class,
        state: JobState::Running,
        pids: vec![100, 101],
    }
}

fn view(cpus: &str, sets: Vec<SetView>) -> MapView {
    MapView {
        version: 1,
        host: "red".to_owned(),
        cpus: cpus.to_owned(),
        sets,
        set_asides: Vec::new(),
        chunks: Vec::new(),
        resources: Vec::new(),
    }
}

fn text(shape: [u32; 5], sets: Vec<SetView>, width: usize) -> String {
    let map = Map::new(&machine(shape), &view("", sets));
    let mut out = Vec::new();
    text::write(&map, width, false, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Jobs side by side on a machine of `pus` PUs, each `wide`, and a backfiller on the first of them.
fn jobs(pus: u32, wide: u32) -> Vec<SetView> {
    let primaries = (0..pus / wide).filter(|job| job % 5 != 4);
    let cpus = |job: u32| format!("{}-{}", job * wide, (job + 1) * wide - 1);
    let mut sets: Vec<SetView> =
        primaries.map(|job| set(u64::from(job) + 1, &cpus(job), JobClass::Primary)).collect();
    sets.push(set(999, &cpus(0), JobClass::Backfill));
    sets
}

#[test]
fn two_cores_in_characters() {
    let sets = vec![set(7, "0", JobClass::Primary), set(8, "0", JobClass::Backfill)];
    let want = "\
red: 2 cores, 1 used, 1 free
[#.]

socket 0          [A.]
                   B  

A  job 7 velvetg (ada): PUs 0 (0 cores), primary, running, 2 processes: 100 101
B  job 8 velvetg (ada): PUs 0 (0 cores), backfill, running, shared, 2 processes: 100 101
";
    assert_eq!(text([1, 1, 1, 2, 1], sets, 100), want);
}

#[test]
fn an_idle_machine_and_somebody_elses_job() {
    let idle = text([1, 1, 1, 4, 1], Vec::new(), 80);
    assert!(idle.contains("4 cores, 0 used, 4 free") && idle.contains("no job has a core"), "{idle}");
    let other = SetView { job: None, name: None, user: None, pids: vec![], ..set(1, "2", JobClass::Primary) };
    let text = text([1, 1, 1, 4, 1], vec![other], 80);
    assert!(text.contains("[..A.]") && text.contains("another user's job"), "{text}");
}

/// As many jobs as may be told, each on all cores: of each core the first ones are kept, primary ones first.
#[test]
fn thousands_of_jobs_on_the_same_cores_are_drawn() {
    let job = |job: u64, class| set(job, "0-1023", class);
    let mut sets: Vec<SetView> = (0..1_900).map(|number| job(number, JobClass::Backfill)).collect();
    sets.extend((0..100).map(|number| job(5_000 + number, JobClass::Primary)));
    let map = Map::new(&machine([1, 1, 1, 512, 2]), &view("", sets));
    let kept: Vec<u64> = map.core(511).sets.iter().filter_map(|&set| map.sets[set].view.job).collect();
    assert_eq!(kept, (5_000..5_064).collect::<Vec<u64>>());
    assert!((0..map.cores()).all(|core| map.core(core).sets.len() == 64));
    assert_eq!((map.used(), map.sets.len()), (512, 2_000));
    // A thread that another set alone has adds none.
    let mut halves: Vec<SetView> = (0..64).map(|job| set(job, "0", JobClass::Primary)).collect();
    halves.extend((64..200).map(|job| set(job, "1", JobClass::Primary)));
    assert_eq!(Map::new(&machine([1, 1, 1, 1, 2]), &view("", halves)).core(0).sets.len(), 64);
}

#[test]
fn large_machines_keep_within_the_terminal() {
    for (shape, pus, wide) in
        [([2, 1, 4, 4, 2], 64, 8), ([8, 2, 4, 8, 2], 1024, 16), ([1, 1, 1, 512, 2], 1024, 16)]
    {
        for width in [80, 100, 160] {
            let text = text(shape, jobs(pus, wide), width);
            for line in text.lines() {
                assert!(line.trim_end().chars().count() <= width, "{width}: {line:?} in\n{text}");
            }
            let head = text.split("\n\n").nth(1).unwrap();
            let cores = shape.iter().take(4).product::<u32>() as usize;
            let letters = head.lines().filter(|line| line.contains('[')).flat_map(|line| line[18..].chars());
            let shown = letters.filter(|c| c.is_ascii_alphanumeric() || *c == '.' || *c == '#').count();
            assert_eq!(shown, cores, "{text}");
        }
    }
}

#[test]
fn pictures_are_whole_and_of_a_bearable_size() {
    let cases = [
        ([1, 1, 1, 2, 1], 2, 1),
        ([2, 1, 4, 4, 2], 64, 8),
        ([8, 2, 4, 8, 2], 1024, 16),
        ([1, 1, 1, 512, 2], 1024, 16),
    ];
    for (shape, pus, wide) in cases {
        let map = Map::new(&machine(shape), &view("", jobs(pus, wide)));
        let picture = svg::draw(&map);
        assert!(
            picture.width <= 1000 && picture.height <= 1400,
            "{pus}: {} x {}",
            picture.width,
            picture.height
        );
        let cores = shape.iter().take(4).product::<u32>() as usize;
        assert_eq!(picture.text.matches("fill=\"none\" stroke=\"#666\"").count(), cores);
        let png = crate::plot::svg_to_png(&picture.text, picture.width, picture.height).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        if let Some(dir) = std::env::var_os("PINFOLD_PICTURES") {
            std::fs::write(std::path::Path::new(&dir).join(format!("map-{pus}-{}.png", shape[0])), png)
                .unwrap();
        }
    }
}

#[test]
fn cores_that_are_set_aside_have_a_frame_of_their_own() {
    let mut view = view("0-7", vec![set(7, "0-1", JobClass::Primary)]);
    view.set_asides.push(SetAsideView {
        set: "<db>".to_owned(),
        cpus: "2-4".to_owned(),
        usable_cpus: "2-4".to_owned(),
        cores: 3,
        memory_bytes: None,
        kind: SetKind::Static,
        shared: false,
        users: Vec::new(),
        owner: "ada".to_owned(),
        jobs: vec![9],
        made_s: 1.0,
        expires_s: None,
        own_nodes: None,
    });
    let picture = svg::draw(&Map::new(&machine([1, 1, 1, 8, 1]), &view));
    // Three cores, and the line that says what the frame means.
    assert_eq!(picture.text.matches("stroke-dasharray").count(), 4);
    assert!(picture.text.contains("set &lt;db&gt;: PUs 2-4 (3 cores), "), "{}", picture.text);
    assert!(picture.text.contains("for its jobs alone, jobs 9"), "{}", picture.text);
}

#[test]
fn nodes_that_are_one_memory_are_named() {
    let mut view = view("0-7", vec![set(7, "0-1", JobClass::Primary)]);
    view.chunks.push(ChunkView {
        nodes: "0-1".to_owned(),
        jobs: vec![7, 9],
        claimed_bytes: 3 << 30,
        usable_bytes: 4 << 30,
    });
    let topology = machine([1, 2, 1, 4, 1]);
    let map = Map::new(&topology, &view);
    let words = "memory of NUMA nodes 0-1: jobs 7 9, which may need 3.00 GiB of 4.00 GiB";
    let mut out = Vec::new();
    text::write(&map, 100, false, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().any(|line| line == words), "{text}");
    assert!(svg::draw(&map).text.contains(words));
    assert_eq!(json(&map, &topology)["chunks"][0]["nodes"], "0-1");
}

#[test]
fn a_name_with_signs_that_xml_does_not_have_breaks_no_picture() {
    let odd = SetView { name: Some("a\u{fffe}\u{ffff}<b".to_owned()), ..set(7, "0", JobClass::Primary) };
    let picture = svg::draw(&Map::new(&machine([1, 1, 1, 2, 1]), &view("", vec![odd]))).text;
    assert!(picture.contains("a??&lt;b") && !picture.contains(['\u{fffe}', '\u{ffff}']), "{picture}");
}

#[test]
fn json_tells_pus_and_sets() {
    let topology = machine([1, 1, 1, 2, 2]).restricted(&"0-2".parse().unwrap());
    let map = Map::new(&topology, &view("0-2", vec![set(7, "0-1", JobClass::Primary)]));
    let value = json(&map, &topology);
    assert_eq!((&value["version"], &value["cores"], &value["used_cores"]), (&1.into(), &2.into(), &1.into()));
    assert_eq!((&value["free_cores"], &value["sets"][0]["job"]), (&1.into(), &7.into()));
    assert_eq!(value["pu"][1]["sets"][0], "job-7");
    assert_eq!((&value["pu"][2]["sets"], &value["pu"][3]["usable"]), (&serde_json::json!([]), &false.into()));
}
