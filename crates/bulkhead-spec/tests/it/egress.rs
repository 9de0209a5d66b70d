//! One grammar of hosts, for what is allowed, what is denied and what is asked.

use bulkhead_spec::{
    Budget, Bytes, GROUPS, Host, HostName, HostPattern, Money, PathPattern, Preset,
    RequestPath, Rule, Secret, SecretBinding, SecretSource, allowing,
};
use proptest::prelude::*;

#[test]
fn a_host_has_one_spelling() {
    let same = [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("[::FFFF:a00:1]", "10.0.0.1"),
        ("[2001:DB8:0::1]", "[2001:db8::1]"),
    ];
    for (said, meant) in same {
        assert_eq!(said.parse::<Host>().unwrap().to_string(), meant, "{said}");
    }
}

/// Rows D2 and D3 of the threats: each of these was once an address or another host to somebody.
#[test]
fn what_two_readers_could_take_for_two_hosts_is_none() {
    let texts = [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "a.com..",
        "-a.com",
        "a-.com",
        "a b.com",
        "a.com\0.evil.com",
        "a.com\r\nX: y",
        "a%2ecom",
        "user@a.com",
        "a.com#b",
        "a.com\\b",
        "a.com/b",
        "a.com:443",
        "fe80::1%eth0",
        "[fe80::1%25eth0]",
        "[::1",
        "::1]",
        "[127.0.0.1]",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "0177.0.0.1",
        "127.0.0.1.",
        "1.2.3.4.5",
        "0",
        "münchen.de",
        "ａ.com",
        "a.com\u{200b}",
        "a。com",
        "256.1.1.1",
        "01.2.3.4",
        "a.0x",
    ];
    for text in texts {
        assert!(text.parse::<Host>().is_err(), "{text:?}");
    }
    assert!("a".repeat(64).parse::<Host>().is_err());
    assert!(vec!["a".repeat(60); 5].join(".").parse::<Host>().is_err());
}

#[test]
fn patterns_compare_label_by_label() {
    let cases = [
        ("example.com", "example.com", true),
        ("example.com", "www.example.com", false),
        ("example.com", "notexample.com", false),
        ("example.com", "example.com.evil.com", false),
        ("*.example.com", "www.example.com", true),
        ("*.example.com", "example.com", false),
        ("*.example.com", "a.b.example.com", false),
        ("*.example.com", "wwwexample.com", false),
        ("**.example.com", "a.b.example.com", true),
        ("**.example.com", "example.com", false),
        ("**.example.com", "evilexample.com", false),
        ("*.EXAMPLE.com", "WWW.example.COM.", true),
        ("**.bulkhead.internal", "host.bulkhead.internal", false),
        ("host.bulkhead.internal", "host.bulkhead.internal", true),
    ];
    for (pattern, name, expected) in cases {
        let (pattern, name): (HostPattern, HostName) =
            (pattern.parse().unwrap(), name.parse().unwrap());
        assert_eq!(pattern.matches(&name), expected, "{pattern} {name}");
    }
}

#[test]
fn a_rule_prints_as_it_is_written() {
    let rules = [
        "example.com",
        "*.example.com",
        "**.example.com:8443",
        "https://example.com",
        "http://example.com:8080",
        "tcp://example.com:443",
        "10.0.0.0/8",
        "10.1.2.3:5432",
        "fd00::/8",
        "[fd00::1]:22",
        "GET https://api.github.com/repos/me/**",
        "GET,HEAD https://example.com:8443/a/*/b",
        "http://example.com/x",
    ];
    for text in rules {
        let rule: Rule = text.parse().unwrap();
        assert_eq!(rule.to_string(), text);
        assert_eq!(rule.to_string().parse::<Rule>().unwrap(), rule);
    }
    assert_eq!("https://example.com/".parse::<Rule>(), "https://example.com".parse());
    assert_eq!("10.0.0.0/8:5432".parse::<Rule>().unwrap().to_string(), "10.0.0.0/8:5432");
}

#[test]
fn what_is_no_rule_says_why() {
    let cases = [
        ("a.com:0", "`0` is not a port: write a number from 1 to 65535"),
        ("a.com:+80", "`+80` is not a port: write a number from 1 to 65535"),
        ("ftp://a.com", "`ftp` is not a scheme: write `https`, `http` or `tcp`"),
        ("10.1.2.3/8", "`10.1.2.3/8` is not a range of addresses: write `10.1.0.0/16`"),
        (
            "GET a.com",
            "`GET a.com` names a method or a path: those need `https://` or `http://`",
        ),
        ("a.*.com", "`a.*.com` has a character that no host name has"),
        (
            "0x7f.1",
            "`0x7f.1` is an address in an unusual form: write it as four decimal numbers",
        ),
    ];
    for (text, why) in cases {
        assert_eq!(text.parse::<Rule>().unwrap_err().to_string(), why);
    }
    let word = allowing("nmp", "--allow").unwrap_err().to_string();
    assert!(word.starts_with("`nmp` is neither a host nor a group; groups are anthropic, "));
}

#[test]
fn nobody_allows_what_belongs_to_everybody() {
    for text in [
        "*",
        "*:22",
        "*.com",
        "**.com",
        "*.co.uk",
        "**.github.io",
        "*.internal",
        "*.s3.amazonaws.com",
    ] {
        assert!(text.parse::<Rule>().unwrap().check_width().is_err(), "{text}");
    }
    for text in ["*.example.com", "**.example.co.uk", "github.io", "*.me.github.io"] {
        assert!(text.parse::<Rule>().unwrap().check_width().is_ok(), "{text}");
    }
}

#[test]
fn every_rule_of_every_group_and_preset_is_one() {
    for group in GROUPS {
        let rules = allowing(group.name, "test").unwrap();
        assert_eq!(rules.len(), group.hosts.len());
        for it in &rules {
            it.rule.check_width().unwrap();
        }
    }
    assert!(Preset::Locked.allow().is_empty());
    assert!(Preset::Balanced.allow().len() > 50);
    assert!(Preset::Balanced.allow().iter().all(|it| !it.origin.contains("doh")));
    assert_eq!(Preset::Open.allow().len(), 1);
}

/// Row D23.
#[test]
fn a_path_that_can_be_read_in_two_ways_is_refused() {
    let paths = [
        "/repos/ok/../evil",
        "/repos/ok/%2e%2e/evil",
        "/repos/ok/%2E./evil",
        "/a/./b",
        "/a//b",
        "/a%2fb",
        "/a%5cb",
        "/a\\b",
        "/a%252e%252e/b",
        "/a/..;/b",
        "/a/..;x=y/b",
        "/a/;/b",
        "/a%00",
        "/a%",
        "/a%2",
        "/a%zz",
        "a",
        "",
        "http://x/a",
        "/a\u{e9}",
        "/a b",
        "/a#b",
        "/a\r\n",
    ];
    for path in paths {
        assert!(path.parse::<RequestPath>().is_err(), "{path:?}");
    }
    let same = [("/%61b", "/ab"), ("/a%20b?c=../d", "/a%20b"), ("/a/", "/a/"), ("/~x", "/~x")];
    for (said, meant) in same {
        assert_eq!(said.parse::<RequestPath>().unwrap().as_str(), meant);
    }
}

#[test]
fn a_pattern_of_paths_goes_segment_by_segment() {
    let cases = [
        ("/repos/me/**", "/repos/me/x/y", true),
        ("/repos/me/**", "/repos/me", true),
        ("/repos/me/**", "/repos/meow/x", false),
        ("/repos/*/x", "/repos/me/x", true),
        ("/repos/*/x", "/repos/me/too/x", false),
        ("/v*/messages", "/v1/messages", true),
        ("/a", "/a/", false),
    ];
    for (pattern, path, expected) in cases {
        let (pattern, path): (PathPattern, RequestPath) =
            (pattern.parse().unwrap(), path.parse().unwrap());
        assert_eq!(pattern.matches(&path), expected, "{pattern} {path:?}");
    }
    for text in ["a", "/a/**/b", "/a/../b", "/a?b", "/%2e", "/a**"] {
        assert!(text.parse::<PathPattern>().is_err(), "{text}");
    }
}

#[test]
fn a_secret_is_bound_to_hosts_and_never_written_out() {
    let binding: SecretBinding = "KEY@api.anthropic.com,*.example.com".parse().unwrap();
    assert_eq!(binding.source, SecretSource::Variable("KEY".to_owned()));
    assert_eq!(binding.to_string(), "KEY@api.anthropic.com,*.example.com");
    let binding: SecretBinding = "KEY=command:pass me@home@a.com".parse().unwrap();
    assert_eq!(binding.source, SecretSource::Command("pass me@home".to_owned()));
    for text in ["KEY=sk-hunter2@a.com", "KEY=sk-hunter2", "KEY=env:1x@a.com"] {
        let error = text.parse::<SecretBinding>().unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
    for text in ["KEY", "1KEY@a.com", "KEY@", "KEY@*.com", "KEY@a b", "@a.com"] {
        assert!(text.parse::<SecretBinding>().is_err(), "{text}");
    }
    assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
}

#[test]
fn a_budget_has_a_target_and_limits() {
    let budget: Budget = "anthropic=$5.25,200000tokens,10requests,10MiB".parse().unwrap();
    assert_eq!(budget.money, Some(Money(5_250_000)));
    assert_eq!(budget.tokens, Some(200_000));
    assert_eq!(budget.requests, Some(10));
    assert_eq!(budget.bytes, Some(Bytes(10 << 20)));
    assert!(budget.covers(&"api.anthropic.com".parse().unwrap()));
    assert!(!budget.covers(&"api.openai.com".parse().unwrap()));
    assert!("*=1requests".parse::<Budget>().unwrap().covers(&"10.0.0.1".parse().unwrap()));
    for text in ["anthropic", "anthropic=", "anthropic=$", "a b=$1", "*=$-1"] {
        assert!(text.parse::<Budget>().is_err(), "{text}");
    }
    assert_eq!(Money(1_500_000).to_string(), "$1.50");
    assert_eq!(Money(12).to_string(), "$0.000012");
}

proptest! {
    #[test]
    fn any_text_is_a_host_in_one_spelling_or_none(text in "\\PC{0,80}|[a-z0-9.:%\\[\\]-]{0,40}") {
        if let Ok(host) = text.parse::<Host>() {
            prop_assert_eq!(host.to_string().parse::<Host>().unwrap(), host);
        }
    }

    #[test]
    fn any_text_is_a_rule_that_reads_back_or_none(text in "[a-zA-Z0-9.*:/%\\[\\] ,-]{0,40}") {
        if let Ok(rule) = text.parse::<Rule>() {
            prop_assert_eq!(rule.to_string().parse::<Rule>().unwrap(), rule);
        }
    }

    #[test]
    fn a_read_path_reads_as_itself(text in "/[a-z0-9./%;\\\\?-]{0,40}") {
        if let Ok(path) = text.parse::<RequestPath>() {
            prop_assert!(!path.as_str().contains("/.."));
            prop_assert_eq!(path.as_str().parse::<RequestPath>().unwrap(), path.clone());
        }
    }
}

#[test]
fn a_secret_may_name_the_header_that_the_gateway_sets() {
    let texts =
        ["T@a.example#X-Api-Key", "T=file:/x@a.example,b.example#Authorization: Bearer"];
    for text in texts {
        let binding: SecretBinding = text.parse().unwrap();
        assert_eq!(binding.to_string(), text);
        assert!(binding.header.is_some());
    }
    let odd = ["", "X Y", "X:", "X: a b", "Host", "transfer-encoding", "X\r\nY", ": Bearer"];
    for header in odd {
        let text = format!("T@a.example#{header}");
        assert!(text.parse::<SecretBinding>().is_err(), "{text:?}");
    }
}
