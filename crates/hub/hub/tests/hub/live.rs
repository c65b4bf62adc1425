//! A job that is not over: its page at the hub is made of its host's own report.
use std::slice::from_ref as one;
use std::time::Duration;

use pinfold_hub::store::{Kind, now_us};
use pinfold_hubclient::HubClient;
use pinfold_hubwire::disk::RealDisk;
use pinfold_hubwire::push::{Pusher, Uplink};

use crate::common::{MadeUp, Served, token};

#[test]
fn a_running_job_opens_with_its_series_and_leads_to_its_page_once_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(&dir.path().join("hub.db"), None);
    let client = HubClient::new(&format!("http://{}", served.address), None).unwrap();
    let mut hub = client.with_token(&token(&served.hub.store, Kind::Host, "alpha"));
    let mut source = MadeUp { points: 30, ..MadeUp::default() };
    source.jobs.extend([(1, true), (2, true), (3, true), (4, false)]);
    let mut pusher = Pusher::open(RealDisk, dir.path(), 1 << 20, "boot").unwrap();
    let mut round = |source: &mut MadeUp, hub: &mut dyn Uplink| {
        let collected = pusher.collect(source, now_us()).unwrap();
        assert_eq!(pusher.tell(hub, collected.status, now_us(), Duration::ZERO, 0).unwrap(), None);
        pusher.send(hub, Duration::ZERO, 0).unwrap();
    };
    round(&mut source, &mut hub);
    let cookie = served.sign_in();
    let asked = served.get("/hosts/alpha/jobs/4", one(&cookie)).body;
    assert!(asked.contains("Its host is asked for its report"), "{asked}");
    (0..2).for_each(|_| round(&mut source, &mut hub));
    let page = served.get("/hosts/alpha/jobs/4", one(&cookie));
    assert_eq!(page.status, 200, "{}", page.body);
    for words in
        ["Job 4 of alpha: made-up", "<dt>State</dt><dd>running", "not yet", "/hosts/alpha/jobs/4/chart.svg"]
    {
        assert!(page.body.contains(words), "{words} is not in {}", page.body);
    }
    let chart = served.get("/hosts/alpha/jobs/4/chart.svg", one(&cookie));
    assert!(chart.body.contains("usual most") && chart.body.contains("job 4"), "{}", chart.body);
    for path in ["/hosts/alpha/jobs/5", "/hosts/beta/jobs/4", "/hosts/alpha/jobs/x"] {
        assert!(matches!(served.get(path, one(&cookie)).status, 400 | 404), "{path}");
    }
    source.jobs.insert(4, true);
    (0..3).for_each(|_| round(&mut source, &mut hub));
    let over = served.get("/hosts/alpha/jobs/4", one(&cookie));
    assert_eq!(over.status, 303, "{}", over.body);
    let at = over.head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
    let page = served.get(at, one(&cookie)).body;
    assert!(page.contains("Job 4 of alpha") && page.contains("exit code 0"), "{page}");
}
