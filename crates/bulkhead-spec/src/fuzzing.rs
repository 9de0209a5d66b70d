//! The readers of hostile text, for fuzzers and generated tests. Nothing else uses this.

use crate::{
    Budget, Bytes, Cpus, GuestPath, Host, HostPattern, Reference, RequestPath, Rule,
    SecretBinding, Span, escape,
};

/// Hosts, rules, paths and the like: whatever is read reads back as itself.
///
/// # Panics
/// If it does not.
pub fn host(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(host) = text.parse::<Host>() {
        assert_eq!(host.to_string().parse(), Ok(host));
    }
    if let Ok(pattern) = text.parse::<HostPattern>() {
        assert_eq!(pattern.to_string().parse(), Ok(pattern));
    }
    if let Ok(rule) = text.parse::<Rule>() {
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
    if let Ok(path) = text.parse::<RequestPath>() {
        assert!(!path.as_str().contains("/../"), "{text:?}");
        assert_eq!(path.as_str().parse(), Ok(path));
    }
    if let Ok(path) = text.parse::<GuestPath>() {
        assert!(!path.to_string().split('/').any(|it| it == ".."), "{text:?}");
    }
    if let Ok(reference) = text.parse::<Reference>() {
        assert_eq!(reference.to_string().parse(), Ok(reference));
    }
    drop((
        text.parse::<Bytes>(),
        text.parse::<Budget>(),
        text.parse::<SecretBinding>(),
        text.parse::<Cpus>(),
        text.parse::<Span>(),
    ));
    assert!(!escape(text).chars().any(char::is_control), "{text:?}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_fuzzers_begin_with_is_read() {
        let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
        for (name, check) in [("host", super::host as fn(&[u8]))] {
            let mut count = 0;
            for seed in seeds.join(name).read_dir().unwrap() {
                check(&std::fs::read(seed.unwrap().path()).unwrap());
                count += 1;
            }
            assert_ne!(count, 0, "{name}");
        }
    }
}
