//! `bulkhead serve`: rooms over HTTP, for programs of any language and for clients of E2B.

use std::{io, net::SocketAddr, path::Path, sync::Arc};

use bulkhead_backends::State;
use bulkhead_engine::rooms::Journal;
use bulkhead_server::{
    Base, Certificates, Door, House, Keys, Settings, serve,
    words::{BackendReport, GuaranteeReport},
};
use bulkhead_spec::Guarantees;
use tokio::{
    net::{TcpListener, UnixListener},
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{
    args::serve::{DoorArgs, ServeArgs},
    codes::Code,
    commands::{
        doctor::plainest,
        examined::{Examined, examine},
        key, rooms,
    },
    config::{ConfigError, Environment},
    engine,
    failure::Failure,
    printer::{Printer, Talk},
    wish::{Caller, Wish},
};

/// The home directory that clients expect in a room.
const HOME: &str = "/home/user";

/// Serves until it is told to stop.
pub(crate) fn run(
    args: &ServeArgs,
    environment: Environment,
    printer: &mut Printer,
) -> Result<u8, Failure> {
    printer.talk = Talk::from(&args.ask.talk);
    let keys = key::keys(&environment)?;
    check_remote(&args.door, &keys, printer)?;
    let wish = Wish::of(&args.ask, Caller::default(), environment)?;
    wish.warnings.iter().for_each(|it| printer.warning(it));
    let (Some(state), Some(runtime)) = (&wish.paths.state, &wish.paths.runtime) else {
        return Err(ConfigError::Homeless.into());
    };
    let journal = Journal::new(state, runtime);
    let socket = args.door.socket.clone().unwrap_or_else(|| runtime.join("bulkhead.sock"));
    let base = base(&wish, args.pool)?;
    let certificates = certificates(&args.door, &base.state, printer)?;
    if keys.list().is_ok_and(|it| it.is_empty()) {
        printer.note("nobody has a key yet; make one: bulkhead key create NAME");
    }
    let threads = engine::threads()?;
    threads.block_on(async {
        let (backends, known) = watch::channel(None);
        look(&wish, backends);
        let settings = settings(&args.door, &wish, known)?;
        let domain = args.door.domain.clone();
        let opened = House::open(base, journal, keys, domain, settings).await;
        let house = opened.map_err(|error| Failure::from_error(Code::Record, &error))?;
        let (door, at) =
            open(args.door.listen, certificates, &socket).await.map_err(|error| {
                Failure::new(Code::System, "could not open the door").because(error)
            })?;
        printer.note(&format!("serving at {at}"));
        let served = serve(Arc::new(house), door, told_to_stop()).await;
        if args.door.listen.is_none() {
            std::fs::remove_file(&socket).unwrap_or_default();
        }
        served.map_err(|error| Failure::new(Code::System, "could not serve").because(error))
    })?;
    printer.note("stopped; the rooms live on");
    Ok(0)
}

/// What every room is made from.
fn base(wish: &Wish, pool: Option<u32>) -> Result<Base, Failure> {
    let failed = |error: io::Error| {
        Failure::new(Code::System, "could not find Bulkhead itself").because(error)
    };
    let mut spec = wish.spec.clone();
    let home = HOME.parse();
    spec.home = Some(home.map_err(|error| failed(io::Error::other(error)))?);
    let own = [("HOME", HOME), ("USER", "user"), ("LOGNAME", "user")];
    spec.env.extend(own.map(|(name, it)| (name.into(), it.into())));
    Ok(Base {
        spec,
        policy: rooms::policy(wish),
        backend: wish.choice.name().to_owned(),
        runtime: wish.layer.runtime.as_ref().map(|it| it.as_str().to_owned()),
        program: std::env::current_exe().map_err(failed)?,
        gateways: wish.paths.rules().unwrap_or_default(),
        state: wish.paths.state.as_ref().map(|it| it.join("server")).unwrap_or_default(),
        admission: rooms::create::admission(wish)?,
        quota: wish.layer.house.quota(),
        pool: pool.or(wish.layer.house.pool).unwrap_or(0),
    })
}

/// What proves the server's domain, if it has one.
fn certificates(
    args: &DoorArgs,
    state: &Path,
    printer: &Printer,
) -> Result<Option<Certificates>, Failure> {
    let Some(domain) = &args.domain else { return Ok(None) };
    let failed = |error: io::Error| {
        Failure::new(Code::System, "there are no certificates for the domain").because(error)
    };
    if let (Some(chain), Some(key)) = (&args.tls_cert, &args.tls_key) {
        return Certificates::given(chain, key).map(Some).map_err(failed);
    }
    let name = domain.split_once(':').map_or(domain.as_str(), |(name, _)| name);
    let (own, authority) = Certificates::own(&state.join("tls"), name).map_err(failed)?;
    let authority = authority.display();
    printer.note(&format!(
        "over TLS, clients must trust {authority} (SSL_CERT_FILE, NODE_EXTRA_CA_CERTS)"
    ));
    Ok(Some(own))
}

/// What the server's own API needs beside rooms.
fn settings(
    args: &DoorArgs,
    wish: &Wish,
    backends: watch::Receiver<Option<Vec<BackendReport>>>,
) -> Result<Settings, Failure> {
    let events = wish.paths.events().ok_or(ConfigError::Homeless)?;
    let own = args.listen.map(|it| it.ip()).filter(|it| !it.is_unspecified());
    let own = own.map(|it| it.to_string());
    Ok(Settings {
        events,
        names: args.host_name.iter().cloned().chain(own).collect(),
        everywhere: args.listen.is_some_and(|it| it.ip().is_unspecified()),
        backends,
    })
}

/// Looks at every backend while the server already answers: a daemon may take its time.
fn look(wish: &Wish, told: watch::Sender<Option<Vec<BackendReport>>>) {
    let (paths, environment) = (wish.paths.clone(), wish.environment.clone());
    tokio::spawn(async move {
        let required = plainest();
        let found = examine(&paths, &environment).await.unwrap_or_default();
        let reports = found.iter().map(|it| report(it, &required)).collect();
        told.send_replace(Some(reports));
    });
}

fn report(found: &Examined, required: &Guarantees) -> BackendReport {
    let findings = found.findings.as_ref().map_or(&[][..], Vec::as_slice);
    let guarantees = findings.iter().map(|finding| {
        let name = finding.guarantee.to_string();
        match &finding.state {
            State::Upheld { by } => {
                GuaranteeReport { name, upheld: true, because: by.clone(), hint: None }
            }
            State::Missing { why, hint } => GuaranteeReport {
                name,
                upheld: false,
                because: why.clone(),
                hint: hint.clone(),
            },
        }
    });
    BackendReport {
        name: found.name.to_owned(),
        usable: found.is_usable(required),
        unavailable: found.findings.as_ref().err().map(|it| it.what.clone()),
        guarantees: guarantees.collect(),
    }
}

/// A door to the world is opened only by somebody who says so, and only if there is a key to it.
fn check_remote(args: &DoorArgs, keys: &Keys, printer: &Printer) -> Result<(), Failure> {
    let Some(address) = args.listen else { return Ok(()) };
    if address.ip().is_loopback() {
        return Ok(());
    }
    if args.allow_remote {
        if !keys.list().is_ok_and(|it| !it.is_empty()) {
            let what = format!("`{address}` can be reached from other machines");
            return Err(Failure::new(Code::Argument, what)
                .because("there is no key yet")
                .hint("make one first: bulkhead key create NAME"));
        }
        if args.domain.is_none() {
            printer.warning(
                "other machines can come in, and nothing on the way is encrypted: name a --domain \
                 for TLS, or listen on 127.0.0.1",
            );
        }
        return Ok(());
    }
    let what = format!("`{address}` can be reached from other machines");
    Err(Failure::new(Code::Argument, what)
        .hint("listen on 127.0.0.1, or say --allow-remote if that is what you want"))
}

async fn open(
    listen: Option<SocketAddr>,
    certificates: Option<Certificates>,
    socket: &Path,
) -> io::Result<(Door, String)> {
    if let Some(address) = listen {
        let listener = TcpListener::bind(address).await?;
        let at = format!("http://{}", listener.local_addr()?);
        return Ok((Door::Tcp(listener, certificates), at));
    }
    if let Some(dir) = socket.parent() {
        std::fs::create_dir_all(dir)?;
    }
    // One that nobody listens on was left by a server that was killed.
    let taken = tokio::net::UnixStream::connect(socket).await.is_ok();
    if taken {
        return Err(io::Error::other("another server listens there"));
    }
    if socket.exists() {
        std::fs::remove_file(socket)?;
    }
    let listener = UnixListener::bind(socket)?;
    rustix::fs::chmod(socket, rustix::fs::Mode::from_raw_mode(0o600))?;
    Ok((Door::Unix(listener), format!("unix:{}", socket.display())))
}

async fn told_to_stop() {
    let (Ok(mut term), Ok(mut int)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
