//! What the guest is told to do, and what it says back.
//!
//! A job is a directory of scripts that the host writes and the guest runs in order. The output of
//! all steps leaves on one channel; lines with the job's mark, which no program under test knows, say
//! where a step begins and how it ended.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;

use super::recipe;

/// The tag under which the host offers the shared directory.
pub(super) const SHARE_TAG: &str = "share";

/// Whom a step runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum User {
    Root,
    Tester,
}

impl User {
    /// The name in the guest's `/etc/passwd`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Tester => recipe::TESTER,
        }
    }

    /// Where a login of this user finds programs.
    fn path(self) -> &'static str {
        match self {
            Self::Root => "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            Self::Tester => "/usr/local/bin:/usr/bin:/bin",
        }
    }
}

/// Which part of the cgroup tree a step has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The session's, as in a terminal. It belongs to the system.
    Session,
    /// One of its own that the user's manager has handed over.
    Delegated,
}

/// Where a step starts.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Home,
    Directory(PathBuf),
}

/// One command in a session of its own.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) user: User,
    pub(super) scope: Scope,
    pub(super) place: Place,
    pub(super) environment: Vec<(String, String)>,
    pub(super) command: Vec<String>,
    pub(super) limit: Duration,
}

/// Steps, and the directory of the host that they see at its own path, read-only.
pub(super) struct Job {
    pub(super) share: PathBuf,
    pub(super) steps: Vec<Step>,
    pub(super) mark: Mark,
}

/// A file of the job's directory.
pub(super) struct Script {
    pub(super) name: String,
    pub(super) text: String,
}

/// The scripts of the job: the one that the guest starts, and one for each step.
pub(super) fn scripts(job: &Job) -> Vec<Script> {
    let mut main = prepare(&job.share);
    let mut all = Vec::new();
    for (index, step) in job.steps.iter().enumerate() {
        let name = format!("step-{index}.sh");
        main.push(job.mark.printing(&format!("begun {index}")));
        main.push(in_session(step.user, &name));
        main.push(job.mark.printing(&format!("ended {index} $?")));
        all.push(Script { name, text: text(&step_script(step)) });
    }
    all.push(Script { name: "job.sh".to_owned(), text: text(&main) });
    all
}

/// Mounts the share where the host has it, because the paths of a build are absolute, and gives the
/// guest what else a machine has.
fn prepare(share: &Path) -> Vec<String> {
    let at = quoted(&share.to_string_lossy());
    let options = recipe::SHARE_OPTIONS;
    let mut script = vec!["set -e".to_owned(), format!("mkdir -p {at}")];
    // A repository under `/root` must be within the reach of the other user.
    script.extend(share.ancestors().skip(1).map(|above| {
        let above = quoted(&above.to_string_lossy());
        format!("chmod a+x {above}")
    }));
    script.push(format!("mount -t 9p -o {options} {SHARE_TAG} {at}"));
    // Cargo promises tests a directory there that they may write to.
    script.push(format!("mount -t tmpfs -o mode=1777 tmp {at}/target/tmp"));
    // On the guest's own disk, as if installed: not every mount can be given to a sandbox.
    let built = format!("{at}/target/{}/release/bulkhead", super::TARGET);
    script.push(format!("test ! -e {built} || install {built} /usr/local/bin"));
    // An interface besides the loopback one, which a sandbox must not see.
    script.push("ip link add dummy0 up type dummy".to_owned());
    script.push("set +e".to_owned());
    script
}

/// A login session of the user around the step: with PAM, a session scope and a user manager.
///
/// The step is named by its script, since systemd would expand dollar signs in a longer command.
fn in_session(user: User, script: &str) -> String {
    let name = user.name();
    let service = recipe::SESSION_SERVICE;
    format!(
        "systemd-run --quiet --collect --wait --pipe --uid={name} -p PAMName={service} \
         /bin/sh /run/job/{script}"
    )
}

fn step_script(step: &Step) -> Vec<String> {
    let mut script = vec![
        // What systemd tells its services is not what a terminal has.
        "unset INVOCATION_ID SYSTEMD_EXEC_PID".to_owned(),
        format!("export PATH={}", step.user.path()),
    ];
    for (name, value) in &step.environment {
        script.push(format!("export {name}={}", quoted(value)));
    }
    script.push(match &step.place {
        Place::Home => "cd || exit 125".to_owned(),
        Place::Directory(directory) => {
            format!("cd {} || exit 125", quoted(&directory.to_string_lossy()))
        }
    });
    let seconds = step.limit.as_secs().max(1);
    let scope = match step.scope {
        Scope::Session => "",
        // Inside of `timeout`, so that the command is alone in its scope.
        Scope::Delegated => "systemd-run --user --scope --quiet -p Delegate=yes ",
    };
    let command: Vec<_> = step.command.iter().map(|word| quoted(word)).collect();
    let command = command.join(" ");
    script.push(format!("timeout --kill-after=5 {seconds} {scope}{command}"));
    // So that the shell stays, and systemd sees a code where the command died of a signal.
    script.push("exit $?".to_owned());
    script
}

fn text(lines: &[String]) -> String {
    lines.join("\n") + "\n"
}

/// The word as the shell takes it literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What tells the job's own lines from those of the programs that it runs.
pub(super) struct Mark(String);

/// What the guest has said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    Output(Vec<u8>),
    Begun { step: usize },
    Ended { step: usize, code: u8 },
}

impl Mark {
    /// A mark from something that differs from job to job.
    pub(super) fn new(unique: u128) -> Self {
        Self(format!("bulkhead-job-{unique:x}"))
    }

    /// The shell command that prints a line with the mark.
    fn printing(&self, words: &str) -> String {
        format!("echo \"{} {words}\"", self.0)
    }

    /// What a line of the channel says. Output that lacks its newline stands before the mark.
    pub(super) fn reports_in(&self, line: &[u8]) -> Vec<Report> {
        let found = line.windows(self.0.len()).position(|it| it == self.0.as_bytes());
        let Some((output, marked)) = found.and_then(|at| line.split_at_checked(at)) else {
            return vec![Report::Output(line.to_vec())];
        };
        let words = String::from_utf8_lossy(marked);
        let words: Vec<_> = words.split_whitespace().skip(1).collect();
        let Some(report) = said(&words) else {
            return vec![Report::Output(line.to_vec())];
        };
        if output.is_empty() {
            return vec![report];
        }
        vec![Report::Output(output.to_vec()), report]
    }
}

fn said(words: &[&str]) -> Option<Report> {
    match words {
        ["begun", step] => Some(Report::Begun { step: step.parse().ok()? }),
        ["ended", step, code] => {
            Some(Report::Ended { step: step.parse().ok()?, code: code.parse().ok()? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job {
            share: PathBuf::from("/src/bulk head"),
            steps: vec![Step {
                user: User::Tester,
                scope: Scope::Delegated,
                place: Place::Home,
                environment: vec![("NOTE".to_owned(), "it's $5".to_owned())],
                command: vec!["echo".to_owned(), "$HOME".to_owned()],
                limit: Duration::from_mins(1),
            }],
            mark: Mark::new(0xabc),
        }
    }

    fn script(name: &str) -> String {
        let found = scripts(&job()).into_iter().find(|it| it.name == name);
        found.unwrap().text
    }

    #[test]
    fn a_step_says_literally_what_was_asked() {
        assert_eq!(
            script("step-0.sh"),
            r"unset INVOCATION_ID SYSTEMD_EXEC_PID
export PATH=/usr/local/bin:/usr/bin:/bin
export NOTE='it'\''s $5'
cd || exit 125
timeout --kill-after=5 60 systemd-run --user --scope --quiet -p Delegate=yes 'echo' '$HOME'
exit $?
"
        );
    }

    #[test]
    fn a_job_shares_first_and_marks_each_step() {
        assert_eq!(
            script("job.sh"),
            "\
set -e
mkdir -p '/src/bulk head'
chmod a+x '/src'
chmod a+x '/'
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 share '/src/bulk head'
mount -t tmpfs -o mode=1777 tmp '/src/bulk head'/target/tmp
test ! -e '/src/bulk head'/target/x86_64-unknown-linux-musl/release/bulkhead || install '/src/bulk head'/target/x86_64-unknown-linux-musl/release/bulkhead /usr/local/bin
ip link add dummy0 up type dummy
set +e
echo \"bulkhead-job-abc begun 0\"
systemd-run --quiet --collect --wait --pipe --uid=tester -p PAMName=bulkhead-session /bin/sh /run/job/step-0.sh
echo \"bulkhead-job-abc ended 0 $?\"
"
        );
    }

    #[test]
    fn marked_lines_are_reports_and_all_else_is_output() {
        let mark = Mark::new(0xabc);
        let hear = |line: &str| mark.reports_in(line.as_bytes());
        let output = |text: &str| Report::Output(text.as_bytes().to_vec());
        assert_eq!(hear("bulkhead-job-abc begun 7\n"), [Report::Begun { step: 7 }]);
        assert_eq!(
            hear("no newlinebulkhead-job-abc ended 7 137\n"),
            [output("no newline"), Report::Ended { step: 7, code: 137 }]
        );
        assert_eq!(hear("bulkhead-job-abd begun 7\n"), [output("bulkhead-job-abd begun 7\n")]);
    }
}
