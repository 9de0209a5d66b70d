//! Secrets, and what stands for them inside.
//!
//! A program inside sees a placeholder of the same shape. On its way out, over verified TLS, to a
//! host of the secret, in a header that carries credentials, the placeholder becomes the value,
//! also inside what Basic credentials encode. Anywhere else it stays what it is. An answer that
//! repeats the value, or the credentials, repeats what the program had sent.

mod placeholder;
mod redactor;

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bulkhead_spec::{Host, HostPattern, Secret, SetHeader};
use http::{HeaderMap, HeaderName, HeaderValue, header};

pub(crate) use redactor::Redactor;

use crate::{BoundSecret, base64};

/// The secrets of one sandbox.
pub(crate) struct Vault {
    kept: Vec<Arc<Kept>>,
    /// Values of headers that are set no more. A host may still repeat them.
    retired: Vec<Arc<Kept>>,
    /// Credentials that were encoded with a value in them, as they went and as they had come: a
    /// host may repeat them, now or later.
    encoded: Arc<Mutex<Vec<Arc<Kept>>>>,
}

/// The most credentials of a sandbox that are remembered; programs use one or two.
const MOST_ENCODED: usize = 32;
/// The most headers of before that are remembered.
const MOST_RETIRED: usize = 256;

pub(super) struct Kept {
    name: String,
    value: Secret,
    placeholder: String,
    hosts: Vec<HostPattern>,
    /// The header that is set, and to what.
    set: Option<(HeaderName, HeaderValue)>,
}

/// The secrets of a host, which none of its answers may repeat.
#[derive(Clone)]
pub(crate) struct Swap(Vec<Arc<Kept>>);

impl Vault {
    pub(crate) fn new(secrets: Vec<BoundSecret>) -> io::Result<Self> {
        let keep = |BoundSecret { name, value, hosts, header }| {
            let placeholder = placeholder::like(value.expose())?;
            let set = header.map(|it| set_header(&it, &value)).transpose()?;
            Ok(Arc::new(Kept { name, value, placeholder, hosts, set }))
        };
        let kept = secrets.into_iter().map(keep).collect::<io::Result<_>>()?;
        Ok(Self { kept, retired: Vec::new(), encoded: Arc::default() })
    }

    /// The same with `headers` to be set, instead of those whose names begin with `prefix`.
    pub(crate) fn with_headers(
        &self,
        prefix: &str,
        headers: Vec<BoundSecret>,
    ) -> io::Result<Self> {
        let is_meant = |it: &Arc<Kept>| it.set.is_some() && it.name.starts_with(prefix);
        let (gone, stay): (Vec<_>, Vec<_>) = self.kept.iter().cloned().partition(is_meant);
        let fresh = Self::new(headers)?.kept;
        let mut retired = [self.retired.as_slice(), &gone].concat();
        retired.drain(..retired.len().saturating_sub(MOST_RETIRED));
        let kept = [stay, fresh].concat();
        Ok(Self { kept, retired, encoded: Arc::clone(&self.encoded) })
    }

    /// Whether any secret is for `host`.
    pub(crate) fn is_for(&self, host: &Host) -> bool {
        self.of(host).next().is_some()
    }

    /// Whether there is any secret at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// What each variable holds inside.
    pub(crate) fn placeholders(&self) -> BTreeMap<String, String> {
        let variables = self.kept.iter().filter(|it| it.set.is_none());
        variables.map(|it| (it.name.clone(), it.placeholder.clone())).collect()
    }

    fn of<'a, 'b>(
        &'a self,
        host: &'b Host,
    ) -> impl Iterator<Item = &'a Arc<Kept>> + use<'a, 'b> {
        self.kept.iter().filter(|it| it.is_for(host))
    }

    fn encoded(&self) -> MutexGuard<'_, Vec<Arc<Kept>>> {
        self.encoded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What must be taken out of the answers of `host`: its secrets, whether or not this request
    /// was given one. It may remember another's.
    pub(crate) fn redaction(&self, host: &Host) -> Option<Swap> {
        let encoded = self.encoded().clone();
        let encoded = encoded.into_iter().filter(|it| it.is_for(host));
        let retired = self.retired.iter().filter(|it| it.is_for(host));
        let kept: Vec<_> = self.of(host).chain(retired).cloned().chain(encoded).collect();
        if kept.is_empty() { None } else { Some(Swap(kept)) }
    }

    /// Puts the secrets of `host` in their places and returns the names of those that were
    /// used; an error says why the request must not go.
    pub(crate) fn swap(
        &self,
        host: &Host,
        headers: &mut HeaderMap,
    ) -> Result<Vec<&str>, &'static str> {
        let mut used = Vec::new();
        for kept in self.of(host) {
            if let Some((name, value)) = &kept.set {
                headers.insert(name, value.clone());
                used.push(kept.name.as_str());
            }
        }
        for (name, value) in headers.iter_mut().filter(|(name, _)| carries_credentials(name)) {
            if let Some(credentials) = basic(name, value) {
                used.extend(self.encode(host, &credentials, value)?);
                continue;
            }
            for kept in self.of(host).filter(|it| it.set.is_none()) {
                if kept.put_in(value)? {
                    used.push(kept.name.as_str());
                }
            }
        }
        used.sort_unstable();
        used.dedup();
        Ok(used)
    }

    /// The same inside what Basic credentials encode, remembered so that no answer repeats it.
    fn encode(
        &self,
        host: &Host,
        credentials: &[u8],
        value: &mut HeaderValue,
    ) -> Result<Vec<&str>, &'static str> {
        let mut swapped = credentials.to_vec();
        let (mut used, mut hosts) = (Vec::new(), Vec::new());
        for kept in self.of(host).filter(|it| it.set.is_none()) {
            let (old, new) = (kept.placeholder.as_bytes(), kept.value.expose().as_bytes());
            if let Some(with) = replaced(&swapped, old, new) {
                swapped = with;
                used.push(kept.name.as_str());
                hosts.extend(kept.hosts.iter().cloned());
            }
        }
        if used.is_empty() {
            return Ok(used);
        }
        let (placeholder, encoded) = (base64::encode(credentials), base64::encode(&swapped));
        let mut goes = HeaderValue::try_from(format!("Basic {encoded}"))
            .map_err(|_| "the secret has characters that no header has")?;
        goes.set_sensitive(true);
        let mut known = self.encoded();
        if known.iter().all(|it| it.value.expose() != encoded) {
            if MOST_ENCODED <= known.len() {
                return Err("too many different credentials were made of this secret");
            }
            let value = Secret::new(encoded);
            let name = used.join(",");
            known.push(Arc::new(Kept { name, value, placeholder, hosts, set: None }));
        }
        *value = goes;
        Ok(used)
    }
}

/// The header that `set` means, with `value` in it.
fn set_header(set: &SetHeader, value: &Secret) -> io::Result<(HeaderName, HeaderValue)> {
    let odd = |_| io::Error::other("the secret has characters that no header has");
    let name = HeaderName::try_from(&set.name).map_err(io::Error::other)?;
    let word = set.word.as_ref().map(|it| format!("{it} ")).unwrap_or_default();
    let mut value = HeaderValue::try_from(format!("{word}{}", value.expose())).map_err(odd)?;
    value.set_sensitive(true);
    Ok((name, value))
}

impl Kept {
    fn is_for(&self, host: &Host) -> bool {
        let name = host.name();
        name.is_some_and(|name| self.hosts.iter().any(|pattern| pattern.matches(name)))
    }

    /// Puts the value in the place of its placeholder; `false` if there is none.
    fn put_in(&self, value: &mut HeaderValue) -> Result<bool, &'static str> {
        let (old, new) = (self.placeholder.as_bytes(), self.value.expose().as_bytes());
        let Some(swapped) = replaced(value.as_bytes(), old, new) else { return Ok(false) };
        let mut swapped = HeaderValue::from_bytes(&swapped)
            .map_err(|_| "the secret has characters that no header has")?;
        swapped.set_sensitive(true);
        *value = swapped;
        Ok(true)
    }
}

impl Swap {
    /// Whether an answer can become longer or shorter.
    pub(crate) fn changes_length(&self) -> bool {
        self.0.iter().any(|it| it.placeholder.len() != it.value.expose().len())
    }

    /// Replaces values that an answer repeats in its headers.
    pub(crate) fn redact_headers(&self, headers: &mut HeaderMap) {
        for kept in &self.0 {
            for value in headers.values_mut() {
                let redacted = replaced(
                    value.as_bytes(),
                    kept.value.expose().as_bytes(),
                    kept.placeholder.as_bytes(),
                );
                if let Some(redacted) = redacted {
                    *value = HeaderValue::from_bytes(&redacted)
                        .unwrap_or_else(|_| HeaderValue::from_static("-"));
                }
            }
        }
    }
}

/// Whether a header is one that carries credentials. An API may repeat others in its answer.
fn carries_credentials(name: &HeaderName) -> bool {
    let name = name.as_str();
    ["auth", "key", "token", "secret"].iter().any(|it| name.contains(it))
}

/// What Basic credentials encode, if a header has any.
fn basic(name: &HeaderName, value: &HeaderValue) -> Option<Vec<u8>> {
    let (scheme, rest) = value.as_bytes().split_at_checked(6)?;
    let is_basic = *name == header::AUTHORIZATION && scheme.eq_ignore_ascii_case(b"basic ");
    is_basic.then(|| base64::decode(rest)).flatten()
}

/// `text` with `new` for each `old`; `None` if there is none.
fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let mut rest = text;
    let mut all = Vec::with_capacity(text.len());
    let mut found = false;
    while let Some(at) = find(rest, old) {
        found = true;
        all.extend_from_slice(rest.get(..at)?);
        all.extend_from_slice(new);
        rest = rest.get(at + old.len()..)?;
    }
    all.extend_from_slice(rest);
    found.then_some(all)
}

/// Where `wanted` begins in `text`.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return None;
    }
    text.windows(wanted.len()).position(|it| it == wanted)
}
