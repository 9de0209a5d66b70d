//! Where sandboxes live.

use std::sync::Arc;

use bulkhead_engine::rooms::Client;
use bulkhead_server::words::{NewSandbox, SandboxInfo, SandboxPage};
use http::Method;
use rustix::rand::{GetRandomFlags, getrandom};

use super::{Local, Remote, Sandbox, SandboxError};

/// Where sandboxes live: in this process, or on a server.
#[derive(Clone, Debug)]
pub struct Host(Kind);

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Local(Arc<Local>),
    Remote(Remote),
}

impl From<Local> for Host {
    fn from(local: Local) -> Self {
        Self(Kind::Local(Arc::new(local)))
    }
}

impl From<Remote> for Host {
    fn from(remote: Remote) -> Self {
        Self(Kind::Remote(remote))
    }
}

impl Host {
    /// An engine in this process.
    pub fn local() -> Result<Self, SandboxError> {
        Local::new().map(Self::from)
    }

    /// The server at `address`; see [`Remote::at`].
    pub fn remote(address: &str, key: Option<&str>) -> Result<Self, SandboxError> {
        Ok(Remote::at(address, key)?.into())
    }

    /// Makes a sandbox.
    pub async fn create(&self, wanted: NewSandbox) -> Result<Sandbox, SandboxError> {
        let (id, client) = match &self.0 {
            Kind::Local(local) => {
                let id = fresh_id()?;
                let client = local.make(&id, wanted).await?;
                (id, client)
            }
            Kind::Remote(remote) => {
                let made: SandboxInfo =
                    remote.ask(&Method::POST, "/v1/sandboxes", Some(&wanted)).await?;
                let client = remote.client(&made.id);
                (made.id, client)
            }
        };
        Sandbox::new(self.clone(), id, client).await
    }

    /// The sandbox of this id or name, which somebody made before. It does not end with the value.
    pub async fn get(&self, text: &str) -> Result<Sandbox, SandboxError> {
        let (id, client): (String, Client) = match &self.0 {
            Kind::Local(local) => local.find(text)?,
            Kind::Remote(remote) => {
                let path = format!("/v1/sandboxes/{}", segment(text));
                let found: SandboxInfo = remote.ask(&Method::GET, &path, None::<&()>).await?;
                let client = remote.client(&found.id);
                (found.id, client)
            }
        };
        Ok(Sandbox::new(self.clone(), id, client).await?.keep())
    }

    /// The ids of all that live.
    pub async fn list(&self) -> Result<Vec<String>, SandboxError> {
        let remote = match &self.0 {
            Kind::Local(local) => return local.living(),
            Kind::Remote(remote) => remote,
        };
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let next = cursor.map(|it| format!("?cursor={it}")).unwrap_or_default();
            let path = format!("/v1/sandboxes{next}");
            let page: SandboxPage = remote.ask(&Method::GET, &path, None::<&()>).await?;
            all.extend(page.sandboxes.into_iter().map(|it| it.id));
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// Ends a sandbox and forgets it.
    pub(super) async fn remove(&self, id: &str, client: &Client) -> Result<(), SandboxError> {
        match &self.0 {
            Kind::Local(local) => {
                client.end(std::time::Duration::ZERO).await?;
                local.forget(id)
            }
            Kind::Remote(remote) => {
                remote.tell(&Method::DELETE, &format!("/v1/sandboxes/{id}")).await
            }
        }
    }
}

/// A part of a path that is nothing else, whatever is in it.
pub(super) fn segment(text: &str) -> String {
    let plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
    let encoded = |it: u8| {
        if plain(it) { char::from(it).to_string() } else { format!("%{it:02X}") }
    };
    text.bytes().map(encoded).collect::<Vec<_>>().concat()
}

fn fresh_id() -> Result<String, SandboxError> {
    let mut bytes = [0_u8; 16];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|errno| SandboxError::System {
        action: "make a name for the sandbox",
        source: errno.into(),
    })?;
    Ok(format!("s{:032x}", u128::from_ne_bytes(bytes)))
}
