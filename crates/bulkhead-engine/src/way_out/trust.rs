//! Whom programs in a sandbox trust when the gateway reads some of what passes.
//!
//! Most variables for certificates *replace* what a program trusts, so what it is given is all
//! that the host trusts and the sandbox's own authority besides.

use std::fs;

use bulkhead_policy::Trust;

/// Where hosts keep all certificates that they trust in one file.
const HOST: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// What the host trusts, and `own`, a certificate in PEM.
pub(super) fn with(own: &str) -> Trust {
    let host = HOST.iter().find_map(|path| fs::read_to_string(path).ok());
    // A host that trusts nobody leaves its sandboxes with the own authority alone.
    let host = host.unwrap_or_default();
    let bundle = format!("{}\n{own}", host.trim_end());
    let keystore = keystore(&bundle);
    Trust { own: own.to_owned(), bundle, keystore }
}

/// `bundle` as Java's own kind of store for certificates. Without a password nobody checks its
/// digest, and it is read-only where it lies.
fn keystore(bundle: &str) -> Vec<u8> {
    let certificates: Vec<Vec<u8>> = certificates(bundle).collect();
    let mut store = Vec::with_capacity(bundle.len());
    store.extend(0xfeed_feed_u32.to_be_bytes());
    store.extend(2_u32.to_be_bytes());
    store.extend(u32::try_from(certificates.len()).unwrap_or_default().to_be_bytes());
    for (at, certificate) in certificates.iter().enumerate() {
        // A trusted certificate: its alias, a date that nobody reads, its type and itself.
        store.extend(2_u32.to_be_bytes());
        text(&mut store, &format!("certificate-{at}"));
        store.extend(0_u64.to_be_bytes());
        text(&mut store, "X.509");
        store.extend(u32::try_from(certificate.len()).unwrap_or_default().to_be_bytes());
        store.extend(certificate);
    }
    store.extend([0; 20]);
    store
}

fn text(store: &mut Vec<u8>, text: &str) {
    store.extend(u16::try_from(text.len()).unwrap_or_default().to_be_bytes());
    store.extend(text.as_bytes());
}

/// The certificates of a text in PEM; what is none is left out.
fn certificates(bundle: &str) -> impl Iterator<Item = Vec<u8>> {
    let bodies = bundle.split(BEGIN).skip(1).filter_map(|it| it.split(END).next());
    bodies.filter_map(decode).filter(|it| !it.is_empty())
}

/// Reads base64 in lines.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for byte in text.bytes().filter(|it| !it.is_ascii_whitespace()) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if 8 <= count {
            count -= 8;
            decoded.push(u8::try_from((bits >> count) & 0xff).unwrap_or_default());
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_bundle_is_in_the_keystore() {
        let bundle = format!(
            "{BEGIN}\nAQID\nBAU=\n{END}\ntext\n{BEGIN}\n!\n{END}\n{BEGIN}\n/+8=\n{END}"
        );
        let read: Vec<_> = certificates(&bundle).collect();
        assert_eq!(read, [vec![1, 2, 3, 4, 5], vec![0xff, 0xef]]);
        let store = keystore(&bundle);
        assert_eq!(
            store.get(..12),
            Some(&[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 2][..])
        );
    }
}
