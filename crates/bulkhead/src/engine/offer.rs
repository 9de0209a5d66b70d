//! Who may build what is asked for. A daemon is asked only if nobody nearer can build it.

use std::sync::{Mutex, PoisonError};

use bulkhead_backends::{
    Backend, Finding, Native, Unwalled,
    container::{
        self, Container, Facts, NoRuntime, Product, Runtime, Surroundings, Unavailable,
        findings,
    },
};
use bulkhead_engine::{RunError, upheld_by};
use bulkhead_policy::Policy;
use bulkhead_spec::{Guarantees, Spec};

use super::{Tell, images, places};
use crate::{
    codes::Code,
    config::{Choice, Environment, Paths, RuntimeName, surroundings},
    failure::Failure,
    wish::Wish,
};

/// Those who may build it, the preferred first, and those who could not be asked.
pub(crate) struct Offer {
    /// Who may build it.
    pub(crate) backends: Vec<Box<dyn Backend>>,
    /// Why a daemon was asked though nobody named one.
    pub(crate) because: Option<String>,
    /// The daemons that were looked for in vain.
    absent: Vec<Absent>,
}

/// A daemon that cannot be used.
struct Absent {
    product: Product,
    failure: Failure,
}

/// What is to be built, as far as it decides by whom.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Who is to build it.
    pub(crate) choice: Choice,
    /// What a daemon is to start it with.
    pub(crate) runtime: Option<&'a RuntimeName>,
    /// The room.
    pub(crate) spec: &'a Spec,
    /// The rules.
    pub(crate) policy: &'a Policy,
    /// Where Bulkhead keeps its files.
    pub(crate) paths: &'a Paths,
    /// The caller's variables.
    pub(crate) environment: &'a Environment,
    /// Who is told what takes long.
    pub(crate) tell: &'a Tell,
}

impl<'a> From<&'a Wish> for Wanted<'a> {
    fn from(wish: &'a Wish) -> Self {
        Self {
            choice: wish.choice,
            runtime: wish.layer.runtime.as_ref(),
            spec: &wish.spec,
            policy: &wish.policy,
            paths: &wish.paths,
            environment: &wish.environment,
            tell: &wish.tell,
        }
    }
}

/// Finds who may build what is `wanted`.
pub(crate) async fn offer(wanted: &Wanted<'_>) -> Result<Offer, Failure> {
    offer_with(None, wanted).await
}

/// The same, with a native backend that is there already.
pub(crate) async fn offer_with(
    native: Option<Native>,
    wanted: &Wanted<'_>,
) -> Result<Offer, Failure> {
    let around = surroundings(wanted.environment);
    let search = Search { wanted: *wanted, around, ahead: Mutex::new(native) };
    match (wanted.choice, wanted.runtime) {
        (Choice::None, None) => Ok(Offer::only(Box::new(Unwalled))),
        (Choice::Native, None) => search.native().map(Offer::only),
        (Choice::None | Choice::Native, Some(runtime)) => Err(idle(wanted.choice, runtime)),
        (Choice::Docker, _) => search.daemon(Product::Docker).await.map(Offer::only),
        (Choice::Podman, _) => search.daemon(Product::Podman).await.map(Offer::only),
        (Choice::Auto, Some(runtime)) => {
            let because = format!("a daemon starts sandboxes with `{}`", runtime.as_str());
            search.daemons(Vec::new(), because).await.or_nearest()
        }
        (Choice::Auto, None) => {
            let native = search.native()?;
            let Some(lacking) = lacking(&native.findings(), wanted) else {
                return Ok(Offer::only(native));
            };
            let because = format!("native does not uphold {lacking} here");
            Ok(search.daemons(vec![native], because).await)
        }
    }
}

/// The native backend of this host, whatever it upholds.
pub(crate) fn native(
    paths: &Paths,
    environment: &Environment,
    tell: &Tell,
) -> Result<Native, Failure> {
    let native = Native::probe(places(paths, environment)?);
    Ok(match images(paths, environment, tell) {
        Some(images) => native.with_images(images),
        None => native,
    })
}

impl Offer {
    fn only(backend: Box<dyn Backend>) -> Self {
        Self { backends: vec![backend], because: None, absent: Vec::new() }
    }

    /// The daemon that builds what is `wanted`, if one does.
    pub(crate) fn daemon(&self, wanted: &Wanted<'_>) -> Option<Product> {
        let of = |backend: &dyn Backend| {
            [Product::Docker, Product::Podman]
                .into_iter()
                .find(|it| it.name() == backend.name())
        };
        let all = || self.backends.iter().map(AsRef::as_ref);
        if !all().any(|it| of(it).is_some()) {
            return None;
        }
        let plan = bulkhead_policy::resolve(wanted.spec.clone(), wanted.policy).ok()?;
        let lacks = |it: &dyn Backend| plan.require().missing_from(&upheld_by(&it.findings()));
        all().find(|it| lacks(*it).is_empty()).and_then(of)
    }

    /// The failure to place a plan, with a word about each daemon that was not there to ask.
    pub(crate) fn unplaced(&self, error: &RunError) -> Failure {
        let failure = Failure::of_run(error);
        match error {
            RunError::Unplaced { .. } => self.absent.iter().fold(failure, |failure, it| {
                failure.because(format!("{}: {}", it.product.name(), it.failure.what))
            }),
            RunError::Denied(_)
            | RunError::Backend(_)
            | RunError::Gone
            | RunError::Busy(_)
            | RunError::File(_)
            | RunError::Room { .. }
            | RunError::Secret { .. }
            | RunError::WayOut(_)
            | RunError::Ledger { .. } => failure,
        }
    }

    /// Itself if there is anybody, else what kept the nearest from being there.
    fn or_nearest(mut self) -> Result<Self, Failure> {
        if !self.backends.is_empty() || self.absent.is_empty() {
            return Ok(self);
        }
        // A daemon that is there and lacks the runtime is nearer than one that is not there.
        let nearest = self.absent.iter().position(|it| it.failure.code == Code::Runtime);
        Err(self.absent.swap_remove(nearest.unwrap_or(0)).failure)
    }
}

struct Search<'a> {
    wanted: Wanted<'a>,
    around: Surroundings,
    /// The native backend, if it is there already.
    ahead: Mutex<Option<Native>>,
}

impl Search<'_> {
    fn native(&self) -> Result<Box<dyn Backend>, Failure> {
        let Wanted { paths, environment, tell, .. } = self.wanted;
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        match ahead {
            Some(native) => match images(paths, environment, tell) {
                Some(images) => Ok(Box::new(native.with_images(images))),
                None => Ok(Box::new(native)),
            },
            None => Ok(Box::new(native(paths, environment, tell)?)),
        }
    }

    /// The daemon of `product`, or why there is none.
    async fn daemon(&self, product: Product) -> Result<Box<dyn Backend>, Failure> {
        let facts = container::find(product, &self.around).await?;
        let runtime = self.runtime(&facts)?;
        let places = places(self.wanted.paths, self.wanted.environment)?;
        let container = Container::new(facts, Some(&runtime.name), places);
        Ok(Box::new(container.map_err(|error| Failure::of_run(&error.into()))?))
    }

    /// The runtime that was named; else the daemon's own, or the first that upholds what it does
    /// not.
    fn runtime(&self, facts: &Facts) -> Result<Runtime, Failure> {
        let named = self.wanted.runtime;
        let usual = facts.runtime(named.map(RuntimeName::as_str))?;
        let able = |it: &Runtime| lacking(&findings(facts, it), &self.wanted).is_none();
        if named.is_some() || able(&usual) {
            return Ok(usual);
        }
        let starts = |it: &&Runtime| it.refuses.is_none() && able(it);
        Ok(facts.runtimes.values().find(starts).cloned().unwrap_or(usual))
    }

    /// Adds every daemon that can be used.
    async fn daemons(&self, mut backends: Vec<Box<dyn Backend>>, because: String) -> Offer {
        let (docker, podman) =
            tokio::join!(self.daemon(Product::Docker), self.daemon(Product::Podman));
        let mut absent = Vec::new();
        for (product, found) in [(Product::Docker, docker), (Product::Podman, podman)] {
            match found {
                // Podman may answer where Docker was expected, and again at its own place.
                Ok(backend) if backends.iter().any(|it| it.name() == backend.name()) => {}
                Ok(backend) => backends.push(backend),
                Err(failure) => absent.push(Absent { product, failure }),
            }
        }
        Offer { backends, because: Some(because), absent }
    }
}

fn idle(choice: Choice, runtime: &RuntimeName) -> Failure {
    let what = format!("the {} backend starts sandboxes without a runtime", choice.name());
    let hint = format!("type: bulkhead run --backend docker --runtime {} …", runtime.as_str());
    Failure::new(Code::Runtime, what).hint(hint)
}

/// What of what is wanted `findings` do not uphold. What the policy refuses anyway needs nobody else.
fn lacking(findings: &[Finding], wanted: &Wanted<'_>) -> Option<Guarantees> {
    let plan = bulkhead_policy::resolve(wanted.spec.clone(), wanted.policy).ok()?;
    plan.settle(&upheld_by(findings)).err()
}

impl From<Unavailable> for Failure {
    fn from(error: Unavailable) -> Self {
        let hint = error.hint().to_owned();
        Self::from_error(Code::Daemon, &error).hint(hint)
    }
}

impl From<NoRuntime> for Failure {
    fn from(error: NoRuntime) -> Self {
        Self::from_error(Code::Runtime, &error).hint(error.hint())
    }
}
