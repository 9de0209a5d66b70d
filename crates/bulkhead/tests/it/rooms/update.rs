//! Rooms that are changed while they live.

use super::Rooms;

#[test]
fn programs_that_start_later_see_what_is_different() {
    let rooms = Rooms::with("shop");
    rooms.fine(&["exec", "-d", "--tag", "old", "shop", "--", "sleep", "60"]);
    rooms.fine(&["update", "shop", "-e", "WORD=one", "-e", "OTHER=two"]);
    assert_eq!(rooms.inside("echo $WORD $OTHER"), "one two\n");
    rooms.fine(&["update", "shop", "--unset", "WORD", "--label", "team=a", "--ttl", "1h"]);
    assert_eq!(rooms.inside("echo ${WORD-none} $OTHER"), "none two\n");
    assert_eq!(rooms.fine(&["ls", "-q", "--label", "team=a"]), "shop\n");
    let left = rooms.host.json(&["inspect", "shop"])["room"]["left_seconds"].clone();
    assert!(3500.0 < left.as_f64().unwrap(), "{left}");
    // What was said to be done is written down.
    let id = rooms.host.json(&["inspect", "shop"])["room"]["id"].as_str().unwrap().to_owned();
    let record = rooms.host.state().join("rooms").join(id).join("room.json");
    let record = std::fs::read_to_string(record).unwrap();
    assert!(record.contains("OTHER") && !record.contains("WORD"), "{record}");
    let events = std::fs::read_to_string(rooms.host.state().join("events.jsonl")).unwrap();
    let told = events.lines().filter(|it| it.contains(r#""event":"changed""#));
    assert_eq!(told.filter(|it| it.contains("OTHER") && !it.contains("two")).count(), 1);
}

#[test]
fn limits_are_raised_and_lowered_up_to_the_ceiling() {
    let rooms = Rooms::none();
    rooms.host.user("[ceiling]\npids = 200\nmemory = \"1g\"\n");
    let made =
        rooms.bulkhead(&["create", "--name", "shop", "--memory", "256m", "--pids", "20"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let many =
        "for i in $(seq 30); do sleep 5 & done 2>/dev/null; jobs | wc -l; kill $(jobs -p)";
    let refused = rooms.bulkhead(&["exec", "shop", "--", "bash", "-c", many]);
    assert_ne!(refused.stdout, "30\n", "{refused:?}");
    rooms.fine(&["update", "shop", "--pids", "100", "--memory", "512m"]);
    let now = rooms.fine(&["exec", "shop", "--", "bash", "-c", many]);
    assert_eq!(now, "30\n");
    let stats = rooms.host.json(&["stats", "--json", "shop"]);
    assert_eq!(stats["rooms"][0]["stats"]["memory_limit"], 512 << 20);
    let limits = rooms.host.json(&["inspect", "shop"])["room"]["plan"]["limits"].clone();
    assert_eq!((&limits["pids"], &limits["memory"]), (&100.into(), &(512 << 20).into()));

    let mut told = vec![];
    let steps: [&[&str]; 7] = [
        &["update", "shop", "--pids", "201"],
        &["update", "shop", "--memory", "2g"],
        &["update", "shop", "--memory", "1m"],
        &["update", "shop", "--allow", "example.com"],
        &["update", "shop", "-e", "=x"],
        &["update", "shop"],
        &["update", "absent", "--pids", "9"],
    ];
    for step in steps {
        told.push(format!("$ bulkhead {}\n{}", step.join(" "), rooms.bulkhead(step).shown()));
    }
    insta::assert_snapshot!(told.join("\n"));
    let after = rooms.host.json(&["inspect", "shop"])["room"]["plan"]["limits"].clone();
    assert_eq!(after, limits);
}

#[test]
fn memory_that_is_in_use_is_not_taken_away() {
    let rooms = Rooms::with("shop");
    rooms.inside("head -c 64m /dev/zero > /tmp/big");
    let refused = rooms.bulkhead(&["update", "shop", "--memory", "32m"]);
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(refused.stderr.contains("in use"), "{refused:?}");
    assert_eq!(rooms.inside("stat -c %s /tmp/big"), "67108864\n");
}

#[test]
fn rules_of_a_room_with_a_gateway_are_changed_and_stay_under_the_ceiling() {
    let rooms = Rooms::none();
    rooms.host.user("[ceiling]\ndeny = [\"secret.example.com\"]\n");
    rooms.fine(&["create", "--name", "shop", "--allow", "one.example.com"]);
    rooms.fine(&["update", "shop", "--allow", "two.example.com", "--deny", "one.example.com"]);
    rooms.fine(&["update", "shop", "--allow", "secret.example.com"]);
    let id = rooms.host.json(&["inspect", "shop"])["room"]["id"].as_str().unwrap().to_owned();
    let verdict = |host: &str| {
        let json =
            rooms.bulkhead(&["policy", "check", host, "--sandbox", &id, "--json"]).stdout;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        json["allowed"].as_bool().unwrap()
    };
    assert!(verdict("two.example.com"));
    assert!(!verdict("one.example.com"));
    assert!(!verdict("secret.example.com"));
}
