//! The processor time that all programs use together has a ceiling.
//!
//! The engine stops them; what a backend promises is that it knows. So the attacks use time in
//! ways that are easily overlooked.

use std::time::Duration;

use bulkhead_backends::Backend;
use bulkhead_spec::Span;
use libtest_mimic::Failed;

use crate::{
    attack::{Attack, Verdict, attacks},
    host,
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites a_program_hides_no_time,
    Bites an_orphan_hides_no_time,
];

/// A processor's time that each script uses, and a little less for how it is counted.
const USED: Duration = Duration::from_millis(250);

const BURN: &str = r"
import time
def burn():
    while time.process_time() < 0.3:
        pass
";

fn counted(backend: &dyn Backend, script: &str) -> Result<Verdict, Failed> {
    let mut room = Room::new(backend)?;
    room.spec.limits.cpu_time = Some(Span(Duration::from_mins(1)));
    let mut inside = room.enter(&format!("{BURN}{script}"), &[])?;
    inside.hear("burnt")?;
    // Read as the engine reads it, while the sandbox lives; counters are a tick late.
    let known = host::eventually("the time is counted", || {
        let used = inside.usage().ok()?.cpu;
        (used.is_none() || Some(USED) < used).then_some(used)
    })?;
    inside.kill()?;
    let unknown = known.is_none().then(|| "nobody knows how much was used".to_owned());
    Ok(Verdict::broken_if(unknown))
}

fn a_program_hides_no_time(backend: &dyn Backend) -> Result<Verdict, Failed> {
    counted(backend, "burn()\nsay('burnt')\nsignal.alarm(20)\nsignal.pause()")
}

/// Nobody waits for it, so nobody is told what it used when it ends.
fn an_orphan_hides_no_time(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        burn()
        say("burnt")
        signal.alarm(20)
        signal.pause()
    os._exit(0)
signal.alarm(20)
signal.pause()
"#;
    counted(backend, script)
}
