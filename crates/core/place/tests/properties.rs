//! What holds of every layout: it stays within what is free, names each task once, and does not depend on
//! the kernel's numbering of PUs; no request and no machine makes it panic.
#![expect(clippy::unwrap_used, reason = "a test stops where its own input is not as it should be")]

use pinfold_place::layout::{Host, LayoutRequest, Select, lay_out};
use pinfold_topo::facts::Facts;
use pinfold_topo::{CpuSet, PuOs, Topology};
use proptest::prelude::*;

/// A machine of `sockets`, each a list of cores, each so many threads; thread by thread numbered by `os`.
fn machine(sockets: &[Vec<usize>], os: &[u32]) -> Topology {
    let mut next = os.iter().map(|&os| PuOs(os));
    let mut facts = Facts::default();
    for cores in sockets {
        let mut socket = CpuSet::new();
        for &threads in cores {
            let core: CpuSet = next.by_ref().take(threads).collect();
            socket = socket.union(&core);
            facts.cores.push(core);
        }
        facts.pus = facts.pus.union(&socket);
        facts.sockets.push(socket);
    }
    facts.assemble().unwrap()
}

fn regular() -> impl Strategy<Value = Vec<Vec<usize>>> {
    (1usize..4, 1usize..5, 1usize..4)
        .prop_map(|(sockets, cores, threads)| vec![vec![threads; cores]; sockets])
}

fn irregular() -> impl Strategy<Value = Vec<Vec<usize>>> {
    let socket = proptest::collection::vec(1usize..4, 1..5);
    proptest::collection::vec(socket, 1..4)
}

/// Options that do not name PUs by number.
fn options() -> impl Strategy<Value = Vec<String>> {
    let pool = [
        "-n1",
        "-n2",
        "-n3",
        "-n5",
        "-n8",
        "-n16",
        "-c2",
        "-c3",
        "-N2",
        "-N1-3",
        "-B1:1",
        "-B2:2:1",
        "-B1:1:2",
        "--threads-per-core=1",
        "--ntasks-per-core=1",
        "--ntasks-per-socket=2",
        "--ntasks-per-node=2",
        "--distribution=block:block",
        "--distribution=cyclic:cyclic",
        "--distribution=plane=2",
        "--distribution=block:fcyclic",
        "--distribution=arbitrary",
        "--nodelist=1,0*3,1",
        "--hint=nomultithread",
        "--hint=memory_bound",
        "--cpu-bind=cores",
        "--cpu-bind=sockets",
        "--cpu-bind=threads",
        "--cpu-bind=none",
        "--cpu-bind=one_thread",
        "--exclusive",
        "--exact",
        "-O",
        "--mincpus=4",
        "--cores-per-socket=2",
        "--sockets-per-node=2",
    ];
    proptest::collection::vec(proptest::sample::select(pool.to_vec()).prop_map(str::to_owned), 1..5)
}

/// A layout in logical numbers of PUs, which say where on the machine they lie.
fn places(hosts: &[Host], request: &LayoutRequest, select: Select) -> String {
    let logical = |host: usize, pus: &CpuSet| -> CpuSet {
        let known = hosts[host].topology.pus();
        known.iter().filter(|pu| pus.contains(pu.os)).map(|pu| PuOs(pu.logical.0)).collect()
    };
    match lay_out(hosts, request, select) {
        Err(error) => format!("{:?}", std::mem::discriminant(&error)),
        Ok(layout) => {
            let shares: Vec<String> = layout
                .hosts
                .iter()
                .map(|share| format!("{}:{}", share.host, logical(share.host, &share.allocated)))
                .collect();
            let tasks: Vec<String> = layout
                .tasks
                .iter()
                .map(|place| {
                    let cpus = place.cpus.as_ref().map(|cpus| logical(place.host, cpus).to_string());
                    format!("{}@{}:{cpus:?}", place.task, place.host)
                })
                .collect();
            format!("{shares:?} {tasks:?}")
        }
    }
}

fn select() -> impl Strategy<Value = Select> {
    prop_oneof![Just(Select::Core), Just(Select::Cpu)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn numbering_has_no_influence(
        shape in regular(),
        held in proptest::collection::vec(any::<bool>(), 60),
        seed in any::<u64>(),
        args in options(),
        select in select(),
    ) {
        let count: usize = shape.iter().flatten().sum();
        let mut numbers: Vec<u32> = (0..u32::try_from(count).unwrap()).collect();
        // A permutation from the seed: each step takes one of the numbers that are left.
        let mut left = std::mem::take(&mut numbers);
        let mut state = seed;
        while !left.is_empty() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let index = usize::try_from(state >> 33).unwrap() % left.len();
            numbers.push(left.swap_remove(index) * 3 + 1);
        }
        let plain: Vec<u32> = (0..u32::try_from(count).unwrap()).collect();
        let host = |os: &[u32]| {
            let topology = machine(&shape, os);
            let pus = topology.pus().iter().zip(&held);
            let free = pus.filter(|(_, held)| !**held).map(|(pu, _)| pu.os).collect();
            Host { topology, free }
        };
        let request = LayoutRequest::from_args(&args).unwrap();
        let [one, other] = [&plain, &numbers].map(|os| places(&[host(os), host(os)], &request, select));
        prop_assert_eq!(one, other);
    }

    #[test]
    fn layouts_stay_within_what_is_free(
        shapes in proptest::collection::vec(irregular(), 1..4),
        held in proptest::collection::vec(any::<bool>(), 60),
        args in options(),
        select in select(),
    ) {
        let hosts: Vec<Host> = shapes
            .iter()
            .map(|shape| {
                let count: u32 = shape.iter().flatten().map(|&threads| u32::try_from(threads).unwrap()).sum();
                let topology = machine(shape, &(0..count).collect::<Vec<u32>>());
                let pus = topology.pus().iter().zip(&held);
                let free = pus.filter(|(_, held)| !**held).map(|(pu, _)| pu.os).collect();
                Host { topology, free }
            })
            .collect();
        let request = LayoutRequest::from_args(&args).unwrap();
        let layout = lay_out(&hosts, &request, select);
        // The same question has the same answer.
        prop_assert_eq!(&layout, &lay_out(&hosts, &request, select));
        let Ok(layout) = layout else { return Ok(()) };
        let shares: Vec<usize> = layout.hosts.iter().map(|share| share.host).collect();
        prop_assert!(shares.windows(2).all(|pair| pair[0] < pair[1]), "hosts in order, each once: {:?}", shares);
        for share in &layout.hosts {
            prop_assert!(!share.allocated.is_empty());
            prop_assert!(share.allocated.is_subset(&hosts[share.host].free));
        }
        for (rank, place) in layout.tasks.iter().enumerate() {
            prop_assert_eq!(place.task, rank);
            let share = layout.hosts.iter().find(|share| share.host == place.host);
            let allocated = &share.unwrap().allocated;
            if let Some(cpus) = &place.cpus {
                prop_assert!(!cpus.is_empty() && cpus.is_subset(allocated), "{} in {}", cpus, allocated);
            }
        }
        if let Some(ntasks) = request.ntasks {
            prop_assert_eq!(layout.tasks.len(), ntasks);
        }
    }

    #[test]
    fn no_option_text_panics(args in proptest::collection::vec("-{0,2}[a-zA-Z_=:,*0-9-]{0,24}", 0..4)) {
        if let Ok(request) = LayoutRequest::from_args(&args) {
            let _ = lay_out(&[Host::idle(machine(&[vec![2, 2]], &[0, 1, 2, 3]))], &request, Select::Core);
        }
    }
}

#[test]
fn odd_hosts_and_requests_are_refused_by_name() {
    let plain = Host::idle(machine(&[vec![1, 1]], &[0, 1]));
    let empty = Host::idle(plain.topology.clone().restricted(&CpuSet::new()));
    let check = |hosts: &[Host], args: &[&str], want: &str| {
        let request = LayoutRequest::from_args(args).unwrap();
        assert_eq!(lay_out(hosts, &request, Select::Core).unwrap_err().to_string(), want, "{args:?}");
    };
    check(&[], &["-n1"], "there is no host");
    check(std::slice::from_ref(&empty), &["-n1"], "more processors requested than there are: 1 of 0");
    let many = ["-N1", "--ntasks-per-node=1048576", "-O", "-c", "1048576"];
    check(&[empty, plain.clone()], &many, "requested node configuration is not available");
    let too_many = ["-N2", "--ntasks-per-node=1048576", "-O"];
    check(&[plain.clone(), plain.clone()], &too_many, "2097152 tasks are more than 1048576");
    check(&[plain], &["-n3"], "more processors requested than there are: 3 of 2");
}
