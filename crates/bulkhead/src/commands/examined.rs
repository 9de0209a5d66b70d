//! Every backend with walls, looked at: for `doctor` and `plan`.

use bulkhead_backends::{
    Backend as _, Finding,
    container::{self, Caution, Facts, Identity, Kernel, Machine, Product, Runtime},
};
use bulkhead_engine::upheld_by;
use bulkhead_spec::{Guarantees, escape};
use serde_json::{Value, json};

use crate::{
    config::{Environment, Paths, surroundings},
    engine,
    failure::Failure,
};

/// One backend.
pub(crate) struct Examined {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it promises here, or why it cannot be used.
    pub(crate) findings: Result<Vec<Finding>, Failure>,
    /// The daemon behind it.
    pub(crate) daemon: Option<Daemon>,
}

/// A daemon that answers.
pub(crate) struct Daemon {
    /// What it says about itself.
    pub(crate) facts: Facts,
    /// What its owner should know.
    pub(crate) cautions: Vec<Caution>,
}

/// Looks at each of them.
pub(crate) async fn examine(
    paths: &Paths,
    environment: &Environment,
) -> Result<Vec<Examined>, Failure> {
    // Only asked what it upholds, which takes no time.
    let tell: engine::Tell = std::sync::Arc::new(|_| ());
    let native = engine::native(paths, environment, &tell)?;
    let around = surroundings(environment);
    let (docker, podman) = tokio::join!(
        container::find(Product::Docker, &around),
        container::find(Product::Podman, &around),
    );
    let native =
        Examined { name: native.name(), findings: Ok(native.findings()), daemon: None };
    let daemon = |product: Product, found: Result<Facts, container::Unavailable>| match found {
        Ok(facts) => Examined::of_daemon(product, facts),
        Err(error) => {
            Examined { name: product.name(), findings: Err(error.into()), daemon: None }
        }
    };
    Ok(vec![native, daemon(Product::Docker, docker), daemon(Product::Podman, podman)])
}

impl Examined {
    fn of_daemon(expected: Product, facts: Facts) -> Self {
        let findings = facts
            .runtime(None)
            .map(|runtime| container::findings(&facts, &runtime))
            .map_err(Failure::from);
        let cautions = container::cautions(&facts);
        Self { name: expected.name(), findings, daemon: Some(Daemon { facts, cautions }) }
    }

    /// What of `required` it does not uphold; nothing where it cannot be used at all.
    pub(crate) fn lacking(&self, required: &Guarantees) -> Option<Guarantees> {
        let findings = self.findings.as_ref().ok()?;
        Some(required.missing_from(&upheld_by(findings)))
    }

    /// Whether it upholds all of `required`.
    pub(crate) fn is_usable(&self, required: &Guarantees) -> bool {
        self.lacking(required).is_some_and(|it| it.is_empty())
    }

    /// For programs.
    pub(crate) fn json(&self, required: &Guarantees) -> Value {
        let unavailable = self.findings.as_ref().err().map(|it| {
            json!({ "code": it.code.name(), "message": it.what, "causes": it.causes, "hint": it.hints.join("; ") })
        });
        json!({
            "name": self.name,
            "usable": self.is_usable(required),
            "lacking": self.lacking(required),
            "findings": self.findings.as_ref().map_or(&[][..], Vec::as_slice),
            "daemon": self.daemon.as_ref().map(|it| &it.facts),
            "cautions": self.daemon.as_ref().map_or(&[][..], |it| it.cautions.as_slice()),
            "unavailable": unavailable,
        })
    }
}

impl Daemon {
    /// What it is, in lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Facts { product, address, said_by, version, cgroup, storage, .. } = &self.facts;
        let (title, version) = (product.title(), escape(version));
        let identity = match self.facts.identity {
            Identity::Rootful => "rootful",
            Identity::Remapped { .. } => "users remapped",
            Identity::Rootless => "rootless",
        };
        let machine = match self.facts.machine {
            Machine::This => "",
            Machine::Other => ", in a machine of its own",
        };
        let (driver, storage) = (escape(&cgroup.driver), escape(storage));
        vec![
            format!("{title} {version} at {address} ({said_by})"),
            format!("{identity}{machine}, cgroup v{} ({driver}), {storage}", cgroup.version),
            format!("runtimes: {}", self.runtimes()),
        ]
    }

    fn runtimes(&self) -> String {
        let default = &self.facts.default_runtime;
        let shown = |runtime: &Runtime| {
            let kernel = match runtime.kernel {
                Kernel::Hosts => None,
                Kernel::UserSpace => Some("gVisor"),
                Kernel::Own => Some("virtual machine"),
            };
            let default = (runtime.name == *default).then_some("default");
            let refuses = runtime.refuses.map(|_| "starts nothing here");
            let notes: Vec<&str> = kernel.into_iter().chain(default).chain(refuses).collect();
            let name = escape(&runtime.name);
            if notes.is_empty() { name } else { format!("{name} ({})", notes.join(", ")) }
        };
        let all: Vec<String> = self.facts.runtimes.values().map(shown).collect();
        all.join(", ")
    }
}
