//! Requests that no row of the fixtures has, by the rules that Slurm's manual and algorithm give.
#![expect(clippy::unwrap_used, reason = "a test stops where its own input is not as it should be")]

use pinfold_place::layout::{Host, HostList, LayoutRequest, Select, lay_out};
use pinfold_topo::Topology;

fn machine(text: &str) -> Topology {
    pinfold_topo::synthetic::facts_of(text).unwrap().assemble().unwrap()
}

/// The allocations and the bindings of `options` on idle hosts, or the refusal.
fn laid(hosts: &[&str], options: &str) -> String {
    let hosts: Vec<Host> = hosts.iter().map(|text| Host::idle(machine(text))).collect();
    let words: Vec<&str> = options.split_whitespace().collect();
    let request = LayoutRequest::from_args(&words).unwrap();
    match lay_out(&hosts, &request, Select::Core) {
        Err(error) => error.to_string(),
        Ok(layout) => {
            let shares = layout.hosts.iter().map(|share| format!("{}:{}", share.host, share.allocated));
            let tasks = layout.tasks.iter().map(|task| {
                let cpus = task.cpus.as_ref().map_or_else(|| "*".to_owned(), ToString::to_string);
                format!("{}@{cpus}", task.host)
            });
            format!("{} | {}", shares.collect::<Vec<_>>().join(" "), tasks.collect::<Vec<_>>().join(" "))
        }
    }
}

const SMALL: &str = "pack:2 core:2 pu:1";

#[test]
fn tasks_run_where_a_list_has_them() {
    let three = [SMALL; 3];
    // The number of tasks follows from the list, the order of hosts from first appearance.
    assert_eq!(laid(&three, "-m arbitrary -w b,a,b"), "0:0,2 1:0 | 0@0 1@0 0@2");
    assert_eq!(laid(&three, "-m arbitrary -w 2,0,2"), "0:0 2:0,2 | 2@0 0@0 2@2");
    // Of a longer list only so many names count as there are tasks.
    assert_eq!(laid(&three, "-n 2 -m arbitrary -w 2,0,2"), "0:0 2:0 | 2@0 0@0");
    assert_eq!(laid(&three, "-c 2 -m arbitrary:block -w 1*2"), "1:0-3 | 1@0-1 1@2-3");
    let busy = "requested node configuration is not available";
    assert_eq!(laid(&three, "-m arbitrary -w 1*5"), busy, "a host has four cores");
    assert_eq!(
        laid(&three, "-O -m arbitrary -w 1*5").split(' ').next(),
        Some("1:0-3"),
        "shared where allowed"
    );
    assert_eq!(laid(&[SMALL, "core:1 pu:1"], "-m arbitrary -w 0,1,1"), busy, "although host 0 has room");
}

#[test]
fn a_list_that_does_not_fit_is_named() {
    let two = [SMALL; 2];
    assert_eq!(laid(&two, "-n 3 -m arbitrary -w 0,1"), "2 host names for 3 tasks");
    assert_eq!(laid(&two, "-m arbitrary -w a,b,c"), "`c` names a host beyond the 2 that there are");
    assert!(
        laid(&two, "-n 2 -m arbitrary").starts_with("--distribution=arbitrary needs the host of each task")
    );
    assert!(laid(&two, "-n 2 -w 0,1").starts_with("a list of hosts says where tasks run with"));
    assert!(laid(&two, "-N 2 -m arbitrary -w 1,1").starts_with("node count specification invalid"));
    assert!(laid(&two, "-N 1 -m arbitrary -w 0,1").starts_with("node count specification invalid"));
}

#[test]
fn a_host_file_is_a_list() {
    let hosts = HostList::parse_file("--nodefile", "n2\nn1\nn2\n").unwrap();
    let mut request = LayoutRequest::from_args(&["-m", "arbitrary"]).unwrap();
    request.hosts = Some(hosts);
    let hosts = [SMALL; 2].map(|text| Host::idle(machine(text)));
    let layout = lay_out(&hosts, &request, Select::Core).unwrap();
    assert_eq!(layout.tasks.iter().map(|task| task.host).collect::<Vec<_>>(), [0, 1, 0]);
}

/// Sockets are left out as long as the CPUs that the tasks ask for remain: single CPUs are counted, and
/// those of whole tasks.
#[test]
fn tasks_of_a_socket_are_counted_by_their_cpus() {
    let split = ["pack:2 core:2 pu:2"];
    assert_eq!(laid(&split, "-n 3 --ntasks-per-socket=3"), "0:0-3 | 0@0-3 0@0-3 0@0-3");
    assert_eq!(laid(&split, "-n 4 --ntasks-per-socket=3"), "0:0-1,4-5 | 0@0-1 0@4-5 0@0-1 0@4-5");
    assert_eq!(laid(&split, "-n 6 --ntasks-per-socket=3"), "0:0-5 | 0@0-3 0@4-5 0@0-3 0@4-5 0@0-3 0@0-3");
    assert_eq!(laid(&split, "-n 2 --ntasks-per-socket=1 -c2"), "0:0-1,4-5 | 0@0-1 0@4-5");
    assert_eq!(
        laid(&["pack:2 core:2 pu:1"], "-n 2 --ntasks-per-socket=3"),
        "requested node configuration is not available"
    );
}
