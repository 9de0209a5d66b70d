//! A second program in a sandbox that runs already, against `docker exec`.

use std::process::Stdio;
use std::time::{Duration, Instant};

use bulkhead_backends::{
    Backend, Native, Places, Sandbox,
    container::{Candidate, Container, Product, detect::Address, probe},
};
use bulkhead_policy::{ExecPlan, Policy, resolve};
use bulkhead_spec::{Exec, Guarantee, ImageRef, ImageSource, Pull, Root, Spec};
use serde::Serialize;

use crate::bench::container::field::Field;
use crate::bench::dockerd::IMAGE;
use crate::bench::stats::Summary;
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

/// How long `/bin/busybox true` takes in something that runs.
#[derive(Serialize)]
pub(super) struct Second {
    pub(super) ours: Summary,
    pub(super) docker: Summary,
    pub(super) native: Summary,
}

impl Second {
    pub(super) fn measure(field: &Field, runs: u32) -> Result<Self, Trouble> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.or_trouble(|| "could not start".to_owned())?;
        let docker = Running::start(field)?;
        let [ours, native, theirs] = runtime.block_on(async {
            let on_docker = Room::open(&on_docker(field).await?, "bench-second").await?;
            let native = Room::open(&natively(field), "bench-native").await?;
            let mut samples = [Vec::new(), Vec::new(), Vec::new()];
            for _ in 0..=runs {
                let took =
                    [on_docker.second().await?, native.second().await?, docker.second()?];
                for (samples, took) in samples.iter_mut().zip(took) {
                    samples.push(took);
                }
            }
            on_docker.close().await?;
            native.close().await?;
            Ok::<_, Trouble>(samples)
        })?;
        // The first one does not count.
        let summary = |samples: &[Duration]| {
            let counted = samples.get(1..).unwrap_or_default();
            Summary::of(counted).ok_or_else(|| Trouble::new("nothing was measured"))
        };
        Ok(Self { ours: summary(&ours)?, docker: summary(&theirs)?, native: summary(&native)? })
    }
}

struct Room {
    sandbox: Box<dyn Sandbox>,
    program: ExecPlan,
}

impl Room {
    async fn open(
        (backend, spec): &(Box<dyn Backend>, Spec),
        id: &str,
    ) -> Result<Self, Trouble> {
        let failed = || "could not make a sandbox".to_owned();
        let upheld = backend.upholds();
        let upheld = upheld.iter().chain([Guarantee::OutputBounded]).collect();
        let plan = resolve(spec.clone(), &Policy::default()).or_trouble(failed)?;
        let settled = plan.settle(&upheld);
        let mut plan = settled.map_err(|it| Trouble::new(format!("{it} is not upheld")))?.plan;
        if let Root::Image(image) = plan.root() {
            let facts = backend.furnish(image).await.or_trouble(failed)?;
            plan = plan.furnished(facts).or_trouble(failed)?;
        }
        let argv = ["/bin/busybox", "true"].map(Into::into).to_vec();
        let program = plan.admit(Exec { argv, ..Exec::default() }).or_trouble(failed)?;
        let sandbox = backend.create(id, &plan).await.or_trouble(failed)?;
        Ok(Self { sandbox, program })
    }

    async fn second(&self) -> Result<Duration, Trouble> {
        let failed = || "could not start a second program".to_owned();
        let started = Instant::now();
        let mut process = self.sandbox.exec(&self.program).await.or_trouble(failed)?;
        process.wait().await.or_trouble(failed)?;
        Ok(started.elapsed())
    }

    async fn close(self) -> Result<(), Trouble> {
        self.sandbox.destroy().await.or_trouble(|| "could not end a sandbox".to_owned())
    }
}

async fn on_docker(field: &Field) -> Result<(Box<dyn Backend>, Spec), Trouble> {
    let failed = || "could not use the daemon".to_owned();
    let address = field.dockerd.env().into_iter().map(|(_, value)| value).next();
    let candidate = Candidate {
        product: Product::Docker,
        address: Address::parse(&address.unwrap_or_default()),
        said_by: "the bench".to_owned(),
    };
    let facts = probe(&candidate).await.or_trouble(failed)?;
    let container = Container::new(facts, None, places(field)).or_trouble(failed)?;
    let reference = IMAGE.parse().or_trouble(failed)?;
    let image = ImageRef { source: ImageSource::Daemon(reference), pull: Pull::Never };
    Ok((Box::new(container), Spec { root: Root::Image(image), ..Spec::default() }))
}

fn natively(field: &Field) -> (Box<dyn Backend>, Spec) {
    (Box::new(Native::probe(places(field))), Spec::default())
}

fn places(field: &Field) -> Places {
    let home = field.home();
    Places { state: home.join("state"), runtime: home.join("run"), bus: None }
}

/// A hardened container that sleeps.
struct Running<'a>(&'a Field);

const NAME: &str = "plain-docker-exec";

impl<'a> Running<'a> {
    fn start(field: &'a Field) -> Result<Self, Trouble> {
        let mut run = field.hardened(&["run", "--detach", "--name", NAME]);
        programs::output(run.args(["/bin/busybox", "sleep", "1000"]))?;
        Ok(Self(field))
    }

    fn second(&self) -> Result<Duration, Trouble> {
        let started = Instant::now();
        let mut exec = programs::command("docker");
        exec.args(["exec", NAME, "/bin/busybox", "true"]).envs(self.0.dockerd.env());
        programs::output(exec.stdin(Stdio::null()))?;
        Ok(started.elapsed())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut remove = programs::command("docker");
        remove.args(["rm", "--force", NAME]).envs(self.0.dockerd.env());
        drop(programs::output(&mut remove));
    }
}
