use std::time::Duration;

use bulkhead_spec::{
    Bytes, DeniedHost, Digest, EgressEvent, EgressUsage, Ending, Event, Guarantee, Guarantees,
    ImageFacts, Outcome, Span, Stream, Usage,
};

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

fn endings() -> [Ending; 9] {
    let limit = Span(Duration::from_millis(1500));
    [
        Ending::Exited { code: 3 },
        Ending::Signaled { signal: 11 },
        Ending::TimedOut { limit },
        Ending::CpuTimeExceeded { limit },
        Ending::OutOfMemory { limit: Some(Bytes(512 << 20)) },
        Ending::DiskFull { limit: None },
        Ending::OutputLimit { limit: Bytes(1 << 20) },
        Ending::Canceled { signal: 2 },
        Ending::Lost,
    ]
}

/// The place of each in `endings`. A new ending does not compile until it has one here.
fn ending_place(ending: &Ending) -> usize {
    match ending {
        Ending::Exited { .. } => 0,
        Ending::Signaled { .. } => 1,
        Ending::TimedOut { .. } => 2,
        Ending::CpuTimeExceeded { .. } => 3,
        Ending::OutOfMemory { .. } => 4,
        Ending::DiskFull { .. } => 5,
        Ending::OutputLimit { .. } => 6,
        Ending::Canceled { .. } => 7,
        Ending::Lost => 8,
    }
}

fn usage() -> Usage {
    Usage {
        wall: Duration::from_millis(1250),
        cpu: Some(Duration::from_micros(250_500)),
        memory: None,
        memory_peak: Some(Bytes(3 << 20)),
        processes_peak: None,
        oom_kills: 1,
        process_refusals: 0,
    }
}

fn image() -> ImageFacts {
    ImageFacts {
        name: "registry.example/team/tool:1".to_owned(),
        digest: Digest::new([7; 32]),
        env: [("TOKEN".into(), "password".into())].into(),
        dir: Some("/app".parse().unwrap()),
        user: Some("node".to_owned()),
        entrypoint: vec!["/app/run".into()],
        command: Vec::new(),
    }
}

fn denied() -> DeniedHost {
    DeniedHost {
        host: "evil.example.com".to_owned(),
        port: 443,
        reason: "no rule".to_owned(),
        rule: None,
        origin: None,
        allow_with: Some("evil.example.com".to_owned()),
        times: 2,
    }
}

fn events() -> [Event; 14] {
    let some: Guarantees =
        [Guarantee::NoNetwork, Guarantee::MemoryBounded].into_iter().collect();
    let ending = Ending::TimedOut { limit: Span(Duration::from_secs(90)) };
    [
        Event::Asked {
            argv: vec!["python3".to_owned(), r"\u{1b}[2J".to_owned()],
            workspace: Some("/work/project".to_owned()),
        },
        Event::Denied { reason: "asked for 8 GiB of memory, the ceiling is 4 GiB".to_owned() },
        Event::Planned { require: some.clone() },
        Event::Placed { backend: "native", missing: some },
        Event::Furnished { image: image().name, digest: image().digest },
        Event::Created,
        Event::Started,
        Event::LimitReached { ending },
        Event::Ended { ending, usage: usage() },
        Event::Destroyed,
        Event::Swept { what: "the cgroup bulkhead-1".to_owned() },
        Event::Egress(EgressEvent::Denied(denied())),
        Event::HandedOut { name: "shop".to_owned() },
        Event::Changed { what: vec!["variable `LANG`".to_owned()] },
    ]
}

/// The place of each in `events`. A new event does not compile until it has one here.
fn event_place(event: &Event) -> usize {
    match event {
        Event::Asked { .. } => 0,
        Event::Denied { .. } => 1,
        Event::Planned { .. } => 2,
        Event::Placed { .. } => 3,
        Event::Furnished { .. } => 4,
        Event::Created => 5,
        Event::Started => 6,
        Event::LimitReached { .. } => 7,
        Event::Ended { .. } => 8,
        Event::Destroyed => 9,
        Event::Swept { .. } => 10,
        Event::Egress(_) => 11,
        Event::HandedOut { .. } => 12,
        Event::Changed { .. } => 13,
    }
}

#[test]
fn an_outcome_is_reported_without_what_was_printed() {
    let outcome = Outcome {
        ending: Ending::Exited { code: 3 },
        sandbox: "k3v9".to_owned(),
        backend: "native",
        image: Some(image()),
        usage: usage(),
        denied_hosts: vec!["evil.example.com:443".to_owned()],
        egress: Some(EgressUsage { denied: vec![denied()], ..EgressUsage::default() }),
        upheld: [Guarantee::NoNetwork, Guarantee::NothingSurvives].into_iter().collect(),
        missing: [Guarantee::DiskBounded].into_iter().collect(),
        stdout: Stream {
            bytes: 5_000_000,
            truncated: true,
            head: b"password".to_vec(),
            tail: b"password".to_vec(),
        },
        stderr: Stream::default(),
    };
    insta::assert_snapshot!(pretty(&outcome));
}

#[test]
fn each_ending_says_its_kind_and_its_limit() {
    let places: Vec<_> = endings().iter().map(ending_place).collect();
    assert_eq!(places, (0..endings().len()).collect::<Vec<_>>());
    insta::assert_snapshot!(pretty(&endings()));
}

#[test]
fn each_event_is_one_object_that_says_its_name() {
    let places: Vec<_> = events().iter().map(event_place).collect();
    assert_eq!(places, (0..events().len()).collect::<Vec<_>>());
    insta::assert_snapshot!(pretty(&events()));
}
