use super::*;
use pinfold_advise::Verdict;

const GIB: u64 = 1 << 30;
/// Names that mean something in one of the formats.
const HOSTILE: [&str; 10] = [
    "a\n#SBATCH --wrap=id",
    "tab\there",
    "it's; rm -rf $HOME `id` $(id)",
    "\"); os.execute(\"id\") --",
    "x' } } ; System.exit(1) //",
    "$(FILE_CONTENTS) @end",
    "back\\slash\\",
    "#comment",
    "\u{202e}rtl",
    "",
];

fn view(class: &str) -> ClassView {
    ClassView {
        class: class.to_owned(),
        user: "ann".to_owned(),
        cores: 4,
        jobs: 40,
        failed: 0,
        failed_at_limit: 0,
        input_p50_bytes: None,
        requested_bytes: Some(16 * GIB),
        peak_p50_bytes: Some(3 * GIB),
        peak_p99_bytes: Some(3 * GIB),
        advised_bytes: Some(3 * GIB + 1),
        risk: Some(0.021),
        risk_interval: Some((0.0, 0.09)),
        saved_gbh: 400.0,
        saved_share: Some(0.7),
        requested_gbh: 600.0,
        wall_p50_s: Some(3_600.0),
        wall_advised_s: Some(4_001.0),
        cores_advised: 2,
        saved_core_h: 8.0,
        last_s: 1_000_000.0,
        verdict: Verdict::TooMuch,
        why: String::new(),
    }
}

/// Two classes, one of which failed at its limit, and one of which nothing is known.
fn views() -> Vec<ClassView> {
    vec![
        view("ALIGN"),
        ClassView {
            user: "ben".to_owned(),
            requested_bytes: None,
            cores_advised: 1,
            failed_at_limit: 1,
            wall_advised_s: None,
            ..view("sort_bam")
        },
        ClassView { advised_bytes: None, ..view("unknown") },
    ]
}

const FORMATS: [Format; 6] = [
    Format::Pinfold,
    Format::Slurm,
    Format::Gridengine,
    Format::Htcondor,
    Format::Nextflow,
    Format::Snakemake,
];
const CONSENTS: [Consent; 3] = [Consent::Report, Consent::Fill, Consent::Lower];

/// All texts that are made of the classes; scripts are the same for all of them and left out.
fn transcript(format: Format, views: &[ClassView]) -> String {
    let mut text = String::new();
    for consent in CONSENTS {
        let made = match render(format, consent, views, 1_000_000.0 + 3.5 * 86_400.0) {
            Ok(made) => made,
            Err(error) => {
                text.push_str(&format!("=== {consent:?}: {error}\n"));
                continue;
            }
        };
        for file in
            made.files.iter().filter(|file| !file.text.contains("MODE=") && !file.text.contains("MODE ="))
        {
            let skipped = file.name == "pinfold-epilog.sh";
            let shown = if skipped { "(the same for all)\n" } else { &file.text };
            text.push_str(&format!("=== {consent:?}: {}\n{shown}", file.name));
        }
        if !made.left_out.is_empty() {
            text.push_str(&format!("=== left out: {:?}\n", made.left_out));
        }
    }
    text
}

#[test]
fn transcripts() {
    for format in FORMATS {
        insta::assert_snapshot!(format!("{format:?}"), transcript(format, &views()));
    }
}

#[test]
fn hostile_names() {
    let views: Vec<ClassView> = HOSTILE.into_iter().map(view).collect();
    for format in FORMATS {
        insta::assert_snapshot!(format!("hostile_{format:?}"), transcript(format, &views));
    }
}

#[test]
fn scripts_know_their_mode() {
    for (format, consent, want) in [
        (Format::Slurm, Consent::Fill, "local MODE = \"fill\"\n"),
        (Format::Slurm, Consent::Lower, "local MODE = \"lower\"\n"),
        (Format::Gridengine, Consent::Fill, "\nMODE=fill\n"),
        (Format::Gridengine, Consent::Lower, "\nMODE=lower\n"),
    ] {
        let made = render(format, consent, &views(), 0.0).unwrap();
        assert!(made.files[0].text.contains(want), "{format:?} {consent:?}");
        assert!(made.files.iter().all(|file| !file.text.contains("@MODE@")));
    }
}

#[test]
fn of_one_name_the_largest_need_counts_where_jobs_are_looked_up_by_it() {
    let small = ClassView { advised_bytes: Some(GIB), cores: 1, failed_at_limit: 1, ..view("ALIGN") };
    let views = [
        small,
        view("ALIGN"),
        ClassView { user: "ben".to_owned(), advised_bytes: Some(9 * GIB), ..view("ALIGN") },
    ];
    let made = render(Format::Slurm, Consent::Lower, &views, 0.0).unwrap();
    let rows: Vec<&str> = made.files[1].text.lines().skip(1).collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows[0].starts_with("ann\tALIGN\t3073\t1\t"), "{rows:?}");
    let made = render(Format::Snakemake, Consent::Report, &views, 0.0).unwrap();
    assert_eq!(made.files[0].text.matches("mem_mb").count(), 1);
    assert!(made.files[0].text.contains("mem_mb: 9664"));
}
