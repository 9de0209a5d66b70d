use super::super::probe::tests::facts;
use super::*;
use crate::State;

/// The lines of `doctor` for the promises of the daemon with `changes`, that `pick` chooses.
fn told(changes: &str, runtime: &Runtime, guarantee: Guarantee) -> String {
    let finding = findings(&facts(changes), runtime)
        .into_iter()
        .find(|it| it.guarantee == guarantee)
        .unwrap();
    match finding.state {
        State::Upheld { by } => format!("upheld by {by}"),
        State::Missing { why, hint } => format!("missing, {why}; {}", hint.unwrap_or_default()),
    }
}

fn runc() -> Runtime {
    Runtime::new("runc", Some("runc"))
}

#[test]
fn what_the_daemon_holds_is_upheld() {
    for guarantee in
        [Guarantee::MemoryBounded, Guarantee::CpuBounded, Guarantee::ProcessesBounded]
    {
        assert_eq!(told("{}", &runc(), guarantee), "upheld by cgroup v1, by the daemon");
    }
}

#[test]
fn what_it_does_not_hold_is_missing_with_the_reason() {
    assert_eq!(
        told(r#"{"SwapLimit": false}"#, &runc(), Guarantee::MemoryBounded),
        "missing, this daemon does not limit swap; boot with swapaccount=1, or with \
         systemd.unified_cgroup_hierarchy=1"
    );
    let rootless = r#"{"PidsLimit": false, "SecurityOptions": ["name=rootless"]}"#;
    assert_eq!(
        told(rootless, &runc(), Guarantee::ProcessesBounded),
        "missing, a rootless daemon cannot limit processes with cgroup v1; boot with \
         systemd.unified_cgroup_hierarchy=1, or use a rootful daemon"
    );
    let without = r#"{"SecurityOptions": []}"#;
    assert!(told(without, &runc(), Guarantee::SyscallsFiltered).starts_with("missing, "));
}

#[test]
fn a_stronger_runtime_is_a_stronger_promise() {
    let gvisor = Runtime::new("runsc", Some("/usr/bin/runsc"));
    let kata = Runtime::new("kata", Some("/usr/bin/kata-runtime"));
    let (shield, own) = (Guarantee::HostKernelShielded, Guarantee::OwnKernel);
    assert_eq!(told("{}", &gvisor, shield), "upheld by gVisor (runsc)");
    assert!(told("{}", &gvisor, own).starts_with("missing"));
    assert_eq!(told("{}", &kata, own), "upheld by virtual machine (kata)");
    let installed = r#"{"Runtimes": {"runc": {"path": "runc"}, "gv": {"path": "runsc"}}}"#;
    assert_eq!(
        told(installed, &runc(), shield),
        "missing, programs share the host's kernel; type: bulkhead run --backend docker --runtime gv …"
    );
}
