//! The doors with nothing behind them, for fuzzers and generated tests. Nothing else uses this.

use std::{
    io,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{body::Body, extract::Request};
use bulkhead_engine::rooms::{Admission, Client, Journal, Quota, Reserve};
use bulkhead_policy::Policy;
use bulkhead_spec::Spec;
use http::{HeaderName, HeaderValue, Method, Uri};
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
};

use crate::{
    Base, House, Keys, Scope, Settings,
    api::{self, guard::Arrival},
    e2b::{envd, interpreter, network::Wish, volumes},
    house::{Facts, Tenant},
    route::Doors,
};

/// A tar archive that is to be unpacked in a room.
pub fn archive(bytes: &[u8]) {
    api::check_archive(bytes);
}

/// What the interpreter of a room says.
pub fn report(bytes: &[u8]) {
    interpreter::check_report(bytes);
}

/// As long as an answer may take to begin: some wait for what does not come.
const PATIENCE: Duration = Duration::from_millis(200);

/// A server whose rooms can neither be made nor reached.
pub struct Empty {
    runtime: Runtime,
    doors: Doors,
    key: HeaderValue,
}

impl Empty {
    /// One that keeps what it keeps in `dir`.
    pub fn at(dir: &Path) -> io::Result<Self> {
        let base = Base {
            spec: Spec::default(),
            policy: Policy::default(),
            backend: "native".to_owned(),
            runtime: None,
            program: dir.join("nowhere"),
            gateways: dir.join("gateways"),
            state: dir.join("state"),
            admission: Admission { reserve: Reserve::default(), state: dir.to_owned() },
            quota: Quota::default(),
            pool: 0,
        };
        std::fs::create_dir_all(&base.state)?;
        let keys = Keys::at(&base.state.join("keys.json"));
        let key = keys.make("fuzz", Scope::Admin, None).map_err(io::Error::other)?;
        let settings = Settings {
            events: base.state.join("events"),
            names: Vec::new(),
            everywhere: false,
            backends: watch::channel(None).1,
        };
        let journal = Journal::new(&base.state, &dir.join("run"));
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let house = House::open(base, journal, keys, Some("box.test".to_owned()), settings);
        let house = runtime.block_on(house).map_err(io::Error::other)?;
        let doors = Doors::of(Arc::new(house));
        Ok(Self { runtime, doors, key: key.parse().map_err(io::Error::other)? })
    }

    /// A request at the doors. Returns the status of what is answered.
    pub fn door(&self, bytes: &[u8]) -> Option<u16> {
        let mut request = request(bytes)?;
        let headers = request.headers_mut();
        headers.entry("x-api-key").or_insert_with(|| self.key.clone());
        headers.entry("host").or_insert(HeaderValue::from_static("localhost"));
        request.extensions_mut().insert(Arrival::Owner);
        self.runtime.block_on(async {
            let answered = tokio::time::timeout(PATIENCE, self.doors.answer(request)).await;
            answered.ok().map(|it| it.status().as_u16())
        })
    }

    /// A request inside a room that has just ended, or about a volume whose keeper has.
    pub fn inside(&self, bytes: &[u8]) -> Option<u16> {
        let request = request(bytes)?;
        let facts = Facts {
            template: "base".to_owned(),
            metadata: std::collections::BTreeMap::new(),
            env: std::collections::BTreeMap::new(),
            access: None,
            traffic: None,
            network: Wish::default(),
            started: 0,
            auto_pause: false,
            auto_resume: false,
        };
        let client = Client::new("/nowhere/at/all".into());
        let tenant = Arc::new(Tenant::new("i0", client, facts, SystemTime::now()));
        let path = request.uri().path();
        let code = path.starts_with("/execute") || path.starts_with("/contexts");
        let volume = path.starts_with("/volumecontent/");
        self.runtime.block_on(async {
            let answering = async {
                if volume {
                    volumes::within(tenant.client.clone(), request).await
                } else if code {
                    interpreter::answer(tenant, request).await
                } else {
                    envd::within(tenant, request).await
                }
            };
            let answered = tokio::time::timeout(PATIENCE, answering).await;
            answered.ok().map(|it| it.status().as_u16())
        })
    }
}

/// `METHOD TARGET`, headers as `name: value`, an empty line, and the body.
fn request(bytes: &[u8]) -> Option<Request> {
    let mut rest = bytes;
    let mut line = || {
        let end = rest.iter().position(|it| *it == b'\n')?;
        let (line, after) = rest.split_at_checked(end)?;
        rest = after.get(1..)?;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    };
    let first = line()?;
    let space = first.iter().position(|it| *it == b' ')?;
    let (method, target) = first.split_at_checked(space)?;
    let method = Method::from_bytes(method).ok()?;
    let uri = Uri::try_from(target.get(1..)?).ok()?;
    let mut headers = Vec::new();
    while let Some(header) = line().filter(|it| !it.is_empty()) {
        let colon = header.iter().position(|it| *it == b':')?;
        let (name, value) = header.split_at_checked(colon)?;
        let value = HeaderValue::from_bytes(value.get(1..)?.trim_ascii()).ok()?;
        headers.push((HeaderName::from_bytes(name).ok()?, value));
    }
    let mut request = Request::new(Body::from(rest.to_vec()));
    (*request.method_mut(), *request.uri_mut()) = (method, uri);
    for (name, value) in headers {
        request.headers_mut().append(name, value);
    }
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(name: &str, mut check: impl FnMut(&[u8], &str)) {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
        let mut count = 0;
        for seed in seeds.read_dir().unwrap() {
            let path = seed.unwrap().path();
            check(&std::fs::read(&path).unwrap(), &path.to_string_lossy());
            count += 1;
        }
        assert_ne!(count, 0, "{name}");
    }

    #[test]
    fn what_fuzzers_begin_with_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let empty = Empty::at(dir.path()).unwrap();
        // What cannot be read, or is no call at all, is no good beginning.
        let odd = [None, Some(400), Some(405), Some(415), Some(422)];
        let mut misread = Vec::new();
        each("door", |bytes, path| {
            // This one asks for a volume and a secret that are not there.
            if path.ends_with("/e2bnew") {
                return;
            }
            let answered = empty.door(bytes);
            misread.extend(odd.contains(&answered).then(|| (path.to_owned(), answered)));
        });
        assert_eq!(misread, []);
        each("inside", |bytes, path| assert!(empty.inside(bytes).is_some(), "{path}"));
        each("archive", |bytes, _| archive(bytes));
        each("report", |bytes, _| report(bytes));
    }

    /// Whatever reads something of a request is reached by a fuzzer.
    #[test]
    fn every_call_that_takes_something_is_among_what_fuzzers_begin_with() {
        let mut begun = Vec::new();
        each("door", |bytes, _| {
            let request = request(bytes).unwrap();
            let query = request.uri().query().is_some();
            let path = request.uri().path().to_owned();
            begun.push((request.method().clone(), path, query));
        });
        let mut missing = Vec::new();
        for call in api::operations().iter().filter(|it| it.takes_something()) {
            let known = begun.iter().any(|(method, path, query)| {
                *method == call.method && call.is_at(path) && (call.query.is_none() || *query)
            });
            missing.extend((!known).then(|| format!("{} {}", call.method, call.path)));
        }
        assert_eq!(missing, [""; 0]);
    }
}
