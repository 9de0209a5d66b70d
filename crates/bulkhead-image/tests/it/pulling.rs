//! Registries, honest and otherwise, on loopback.

mod server;

use std::{path::PathBuf, sync::Arc};

use bulkhead_image::{ImageError, Images, Settings};
use bulkhead_spec::{ImageFacts, ImageRef, ImageSource, Pull};
use serde_json::json;

use self::server::{Answer, Server, digest, image, layer};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache/images")
    }

    /// A `config.json` with a name and a password for `registry`.
    fn log_in(&self, registry: &str) {
        // `user:password`
        let auth = json!({ "auths": { registry: { "auth": "dXNlcjpwYXNzd29yZA==" } } });
        std::fs::write(self.dir.path().join("config.json"), auth.to_string()).unwrap();
    }

    async fn obtain(&self, name: &str, pull: Pull) -> Result<ImageFacts, ImageError> {
        let images = Images::new(Settings {
            cache: self.cache(),
            credentials: vec![self.dir.path().join("config.json")],
            sockets: Vec::new(),
            tell: Arc::new(|_| ()),
        });
        let source = ImageSource::Registry(name.parse().unwrap());
        images.obtain(&ImageRef { source, pull }).await
    }

    /// Nothing of a failed image is there, whole or in part.
    fn assert_empty(&self) {
        for part in ["layers", "tmp", "records", "names"] {
            let count = std::fs::read_dir(self.cache().join(part)).unwrap().count();
            assert_eq!(count, 0, "{part}");
        }
    }
}

#[tokio::test]
async fn an_image_is_pulled_once_and_asked_for_again_only_if_told() {
    let server = Server::start(image(&[layer("x", b"hello")])).await;
    let name = server.name("team/tool:1");
    let place = Place::new();
    let error = place.obtain(&name, Pull::Never).await.unwrap_err();
    assert!(matches!(error, ImageError::Absent), "{error}");
    assert_eq!(server.asked().len(), 0);
    let facts = place.obtain(&name, Pull::Missing).await.unwrap();
    assert_eq!(facts.name, name);
    assert_eq!(facts.env.get(std::ffi::OsStr::new("GREETING")).unwrap(), "hello");
    let asked = server.asked().len();
    assert_eq!(place.obtain(&name, Pull::Missing).await.unwrap(), facts);
    assert_eq!(place.obtain(&name, Pull::Never).await.unwrap(), facts);
    assert_eq!(server.asked().len(), asked);
    assert_eq!(place.obtain(&name, Pull::Always).await.unwrap(), facts);
    let again = &server.asked()[asked..];
    assert!(!again.is_empty());
    // Its layers are here already.
    let blobs = |it: &&server::Ask| {
        it.path.contains("/blobs/") && it.path.ends_with(&facts.digest.hex())
    };
    assert_eq!(again.iter().filter(blobs).count(), 0);
    let layer =
        std::fs::read_dir(place.cache().join("layers")).unwrap().next().unwrap().unwrap();
    assert_eq!(std::fs::read(layer.path().join("x")).unwrap(), b"hello");
}

#[tokio::test]
async fn tokens_and_passwords_are_used_when_asked_for() {
    let mut parts = image(&[layer("x", b"")]);
    parts.wants = server::Wants::Token;
    let server = Server::start(parts).await;
    let place = Place::new();
    let name = server.name("team/tool:1");
    let error = place.obtain(&name, Pull::Missing).await.unwrap_err();
    assert!(matches!(error, ImageError::Refused { status: 401, .. }), "{error}");
    assert_eq!(error.hint().unwrap(), format!("log in first: docker login {}", server.host()));
    place.log_in(&server.host());
    place.obtain(&name, Pull::Missing).await.unwrap();
    let token = server.asked().into_iter().rfind(|it| it.path.starts_with("/token")).unwrap();
    assert_eq!(token.authorization.unwrap(), "Basic dXNlcjpwYXNzd29yZA==");
    // Only what is needed, whatever the registry would have us ask for.
    assert!(token.path.contains("scope=repository%3Ateam%2Ftool%3Apull"), "{}", token.path);

    let mut parts = image(&[layer("x", b"")]);
    parts.wants = server::Wants::Password;
    let server = Server::start(parts).await;
    let place = Place::new();
    place.log_in(&server.host());
    place.obtain(&server.name("team/tool:1"), Pull::Missing).await.unwrap();
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect_to_another_server() {
    let parts = image(&[layer("x", b"content")]);
    let storage = Server::start(parts.clone()).await;
    let mut front = parts;
    front.wants = server::Wants::Token;
    front.redirect = Some(storage.base());
    let server = Server::start(front).await;
    let place = Place::new();
    place.log_in(&server.host());
    place.obtain(&server.name("team/tool:1"), Pull::Missing).await.unwrap();
    assert!(!storage.asked().is_empty());
    for ask in storage.asked() {
        assert_eq!(ask.authorization, None, "{}", ask.path);
    }
}

#[tokio::test]
async fn the_image_for_this_machine_is_chosen() {
    let mut parts = image(&[layer("x", b"")]);
    let own = parts.index_for(&[("plan9", "amd64"), ("linux", server::architecture())]);
    let server = Server::start(parts).await;
    let place = Place::new();
    let facts = place.obtain(&server.name("team/tool:1"), Pull::Missing).await.unwrap();
    assert_eq!(facts.digest, own);

    let mut parts = image(&[layer("x", b"")]);
    parts.index_for(&[("plan9", "amd64")]);
    let server = Server::start(parts).await;
    let error =
        Place::new().obtain(&server.name("team/tool:1"), Pull::Missing).await.unwrap_err();
    assert!(matches!(error, ImageError::Platform { .. }), "{error}");
}

/// What a registry does with its one layer, and what we say to that.
async fn lied_to(answer: Answer) -> String {
    let mut parts = image(&[layer("x", &vec![b'x'; 100_000])]);
    parts.layers_answer = answer;
    let server = Server::start(parts).await;
    let place = Place::new();
    let error = place.obtain(&server.name("team/tool:1"), Pull::Missing).await.unwrap_err();
    place.assert_empty();
    error.to_string()
}

#[tokio::test]
async fn a_layer_that_is_not_what_was_promised_is_refused() {
    let said = lied_to(Answer::Other(layer("x", b"evil"))).await;
    assert!(said.contains("should be sha256:"), "{said}");
    let said = lied_to(Answer::Cut).await;
    assert!(said.contains("does not answer") || said.contains("too early"), "{said}");
    let said = lied_to(Answer::Endless).await;
    assert!(
        said.contains("longer than its manifest says") || said.contains("should be"),
        "{said}"
    );
}

#[tokio::test]
async fn a_manifest_that_is_not_what_was_pinned_is_refused() {
    let parts = image(&[layer("x", b"")]);
    let server = Server::start(parts).await;
    let other = digest(b"other");
    let place = Place::new();
    let name = server.name(&format!("team/tool@{other}"));
    let error = place.obtain(&name, Pull::Missing).await.unwrap_err();
    assert!(matches!(error, ImageError::Digest { .. }), "{error}");
}

#[tokio::test]
async fn an_endless_manifest_is_refused() {
    let mut parts = image(&[layer("x", b"")]);
    parts.manifest_answer = Answer::Endless;
    let server = Server::start(parts).await;
    let error =
        Place::new().obtain(&server.name("team/tool:1"), Pull::Missing).await.unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
}
