//! What the rules say about a host, an address, a request.

use bulkhead_policy::{
    AddressClass, EgressCeiling, EgressRules, Policy, Reason, Scope, Speech, Verdict, resolve,
};
use bulkhead_spec::{Egress, Guarantee, Host, Network, Sourced, Spec, denying};
use proptest::prelude::*;

fn rules(allow: &[&str], deny: &[&str]) -> EgressRules {
    let all = |texts: &[&str], origin: &str| -> Vec<Sourced> {
        texts.iter().flat_map(|it| denying(it, origin).unwrap()).collect()
    };
    EgressRules::new(all(allow, "--allow"), all(deny, "--deny"))
}

fn host(text: &str) -> Host {
    text.parse().unwrap()
}

fn allows(rules: &EgressRules, to: &str, port: u16) -> bool {
    matches!(rules.judge(&host(to), port), Verdict::Allowed(_))
}

fn why(rules: &EgressRules, to: &str, port: u16) -> (String, Option<String>) {
    match rules.judge(&host(to), port) {
        Verdict::Allowed(it) => panic!("{to} is allowed by {}", it.by.rule),
        Verdict::Denied(it) => (it.reason.to_string(), it.allow_with),
    }
}

#[test]
fn deny_wins_and_no_match_is_deny() {
    let rules = rules(&["example.com", "**.example.com"], &["evil.example.com"]);
    assert!(allows(&rules, "example.com", 443));
    assert!(allows(&rules, "www.example.com", 80));
    assert_eq!(
        why(&rules, "evil.example.com", 443),
        ("denied by `evil.example.com` (--deny)".to_owned(), None)
    );
    assert_eq!(
        why(&rules, "other.com", 443),
        ("no rule".to_owned(), Some("other.com".to_owned()))
    );
    assert_eq!(
        why(&rules, "example.com", 22),
        ("no rule".to_owned(), Some("example.com:22".to_owned()))
    );
}

#[test]
fn a_denied_host_is_denied_on_every_port() {
    let rules = rules(&["a.com:22", "a.com"], &["a.com"]);
    assert!(!allows(&rules, "a.com", 22));
}

#[test]
fn what_no_rule_can_open_stays_shut() {
    let rules = rules(
        &["0.0.0.0/0", "::/0", "localhost", "metadata.google.internal", "127.0.0.1"],
        &[],
    );
    let hosts = [
        "127.0.0.1",
        "127.9.9.9",
        "169.254.169.254",
        "[::1]",
        "0.0.0.0",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "224.0.0.1",
        "255.255.255.255",
        "198.18.0.7",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[64:ff9b::a9fe:a9fe]",
        "localhost",
        "x.localhost",
        "metadata.google.internal",
        "metadata",
    ];
    for it in hosts {
        assert!(!allows(&rules, it, 443), "{it}");
        assert_eq!(why(&rules, it, 443).1, None, "{it}");
    }
    assert!(allows(&rules, "10.0.0.1", 443));
    assert!(allows(&rules, "93.184.216.34", 443));
}

#[test]
fn an_address_is_dialled_if_it_is_public_or_listed() {
    let plain = rules(&["db.corp.com:5432"], &["203.0.113.0/24"]);
    let dial = |rules: &EgressRules, to: &str| rules.may_dial(to.parse().unwrap(), 5432);
    assert!(dial(&plain, "93.184.216.34"));
    assert!(dial(&plain, "2606:2800:220:1::1"));
    for it in [
        "10.0.0.5",
        "192.168.1.1",
        "172.16.0.1",
        "100.64.0.1",
        "fd12::1",
        "127.0.0.1",
        "::1",
        "::ffff:10.0.0.5",
        "64:ff9b::a00:5",
        "2002:a00:5::1",
        "169.254.169.254",
        "203.0.113.9",
        "2001:0:1::f5ff:fffa",
        "::a00:5",
        "0.0.0.0",
        "64:ff9b::5db8:d822",
    ] {
        assert!(!dial(&plain, it), "{it}");
    }
    let listed = rules(&["db.corp.com:5432", "10.0.0.0/8:5432", "127.0.0.0/8:5432"], &[]);
    assert!(dial(&listed, "10.0.0.5"));
    assert!(dial(&listed, "::ffff:10.0.0.5"));
    assert!(!listed.may_dial("10.0.0.5".parse().unwrap(), 5433));
    assert!(!dial(&listed, "127.0.0.1"));
    assert_eq!(AddressClass::of("fec0::1".parse().unwrap()), AddressClass::Private);
}

#[test]
fn every_list_must_agree() {
    let list = |texts: &[&str]| {
        texts.iter().flat_map(|it| denying(it, "/etc/bulkhead").unwrap()).collect()
    };
    let one = EgressCeiling {
        allow: [list(&["**.example.com", "a.com:22"])].into(),
        deny: list(&["bad.example.com"]),
        ..EgressCeiling::default()
    };
    let rules = rules(&["www.example.com", "bad.example.com", "a.com:22", "b.com"], &[]);
    let rules = rules.under(&one);
    assert!(allows(&rules, "www.example.com", 443));
    assert!(allows(&rules, "a.com", 22));
    assert!(!allows(&rules, "bad.example.com", 443));
    assert!(!allows(&rules, "x.example.com", 443));
    let Verdict::Denied(it) = rules.judge(&host("b.com"), 443) else { panic!("it is allowed") };
    assert_eq!((it.reason, it.allow_with), (Reason::Ceiling, None));
}

#[test]
fn rules_say_what_may_be_spoken() {
    let rules = rules(
        &[
            "a.com",
            "tcp://b.com:443",
            "c.com:22",
            "https://d.com:8443",
            "GET https://e.com/x/**",
        ],
        &["POST https://a.com/**"],
    );
    let of = |to: &str, port: u16| match rules.judge(&host(to), port) {
        Verdict::Allowed(it) => (it.speech.into_iter().collect::<Vec<_>>(), it.scope),
        Verdict::Denied(it) => panic!("{}", it.reason),
    };
    assert_eq!(of("a.com", 443), (vec![Speech::Tls], Scope::Request));
    assert_eq!(of("a.com", 80), (vec![Speech::Http], Scope::Connection));
    assert_eq!(of("b.com", 443), (vec![Speech::Raw], Scope::Connection));
    assert_eq!(of("c.com", 22), (vec![Speech::Raw], Scope::Connection));
    assert_eq!(of("d.com", 8443), (vec![Speech::Tls], Scope::Connection));
    assert_eq!(of("e.com", 443), (vec![Speech::Tls], Scope::Request));
}

#[test]
fn requests_are_judged_by_method_and_path() {
    let rules =
        rules(&["GET https://a.com/repos/me/**", "b.com"], &["DELETE https://b.com/**"]);
    let ask = |to: &str, method: &str, path: &str| match rules.judge_request(
        &host(to),
        443,
        method,
        path,
    ) {
        Verdict::Allowed(_) => "yes".to_owned(),
        Verdict::Denied(it) => format!("{}; {:?}", it.reason, it.allow_with),
    };
    assert_eq!(ask("a.com", "GET", "/repos/me/x?y=1"), "yes");
    assert_eq!(
        ask("a.com", "POST", "/repos/me/x"),
        "no rule; Some(\"POST https://a.com/repos/me/x\")"
    );
    assert_eq!(
        ask("a.com", "GET", "/repos/you"),
        "no rule; Some(\"GET https://a.com/repos/you\")"
    );
    assert_eq!(
        ask("a.com", "GET", "/repos/me/%2e%2e/you"),
        "its path can be read in more than one way; None"
    );
    assert_eq!(ask("b.com", "PUT", "/x"), "yes");
    assert_eq!(
        ask("b.com", "DELETE", "/x"),
        "denied by `DELETE https://b.com/**` (--deny); None"
    );
    assert_eq!(ask("c.com", "GET", "/"), "no rule; Some(\"c.com\")");
}

#[test]
fn ports_are_those_of_the_rules() {
    let rules = rules(&["a.com", "b.com:22", "https://c.com:8443"], &["d.com:99"]);
    assert_eq!(rules.ports().into_iter().collect::<Vec<_>>(), [22, 80, 443, 8443]);
}

const TEXTS: [&str; 12] = [
    "a.com",
    "*.a.com",
    "**.a.com",
    "b.a.com",
    "a.com:22",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "tcp://a.com:443",
    "https://a.com",
    "GET https://a.com/x/**",
    "c.b.a.com",
    "http://a.com",
];
const HOSTS: [&str; 6] = ["a.com", "b.a.com", "c.b.a.com", "10.1.2.3", "10.9.9.9", "b.com"];

#[test]
fn an_observed_sandbox_reaches_what_is_public_and_nothing_else() {
    let spec = Spec { network: Network::Observe, ..Spec::default() };
    let plan = resolve(spec, &Policy::default()).unwrap();
    let rules = plan.egress().rules();
    assert!(plan.require().contains(Guarantee::EgressOnlyThroughProxy));
    for port in [22, 80, 443] {
        assert!(allows(rules, "anything.example.com", port));
    }
    for to in ["10.0.0.1", "93.184.216.34", "169.254.169.254", "localhost", "dns.google"] {
        assert!(!allows(rules, to, 443), "{to}");
    }
    assert!(!rules.may_dial("10.0.0.1".parse().unwrap(), 443));
    assert!(!allows(rules, "host.bulkhead.internal", 443));
}

#[test]
fn a_sandbox_with_a_proxy_gets_what_it_asked_for_as_far_as_its_machine_allows() {
    let list = |texts: &[&str], origin: &str| -> Vec<Sourced> {
        texts.iter().flat_map(|it| denying(it, origin).unwrap()).collect()
    };
    let egress = Egress { allow: list(&["a.com", "b.com"], "--allow"), ..Egress::default() };
    let spec = Spec { network: Network::Proxy, egress, ..Spec::default() };
    let ceiling = list(&["a.com", "c.com"], "/etc/bulkhead/config.toml");
    let egress = EgressCeiling {
        allow: [ceiling.into_iter().collect()].into(),
        ..EgressCeiling::default()
    };
    let policy = Policy { egress, ..Policy::default() };
    let plan = resolve(spec.clone(), &policy).unwrap();
    let reached = ["a.com", "b.com", "c.com"].map(|it| allows(plan.egress().rules(), it, 443));
    assert_eq!(reached, [true, false, false]);
    let denied = resolve(spec, &Policy { network: Network::None, ..Policy::default() });
    assert_eq!(
        denied.unwrap_err().to_string(),
        "asked for network `proxy`, the ceiling is `none`"
    );
}

proptest! {
    #[test]
    fn a_rule_that_denies_never_opens_and_a_ceiling_only_narrows(
        allow in prop::sample::subsequence(TEXTS.to_vec(), 0..6),
        deny in prop::sample::subsequence(TEXTS.to_vec(), 0..4),
        more in prop::sample::select(TEXTS.to_vec()),
        ceiling in prop::sample::subsequence(TEXTS.to_vec(), 0..6),
        to in prop::sample::select(HOSTS.to_vec()),
        port in prop::sample::select(vec![22_u16, 80, 443]),
    ) {
        let before = rules(&allow, &deny);
        let refusing = before.clone().denying(denying(more, "more").unwrap().remove(0));
        let list = ceiling.iter().flat_map(|it| denying(it, "ceiling").unwrap()).collect();
        let ceiling = EgressCeiling { allow: [list].into(), ..EgressCeiling::default() };
        let under = before.clone().under(&ceiling);
        let was = allows(&before, to, port);
        prop_assert!(was || !allows(&refusing, to, port));
        prop_assert!(was || !allows(&under, to, port));
        let dial = |it: &EgressRules| it.may_dial("10.1.2.3".parse().unwrap(), port);
        prop_assert!(dial(&before) || !dial(&refusing));
        prop_assert!(dial(&before) || !dial(&under));
    }
}

#[test]
fn what_a_ceiling_denies_cannot_be_taken_back() {
    let denied = denying("evil.com", "owner").unwrap();
    let ceiling =
        EgressCeiling { deny: denied.iter().cloned().collect(), ..Default::default() };
    let own = rules(&["evil.com", "fine.com"], &["fine.com"]).under(&ceiling);
    let all: Vec<Sourced> = own.denied().to_vec();
    let tried = all.iter().fold(own, |rules, it| rules.without(&it.rule, &it.origin));
    assert!(!allows(&tried, "evil.com", 443));
    assert!(allows(&tried, "fine.com", 443));
}
