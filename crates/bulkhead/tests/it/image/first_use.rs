//! A run in the image of its project.

use crate::{
    dockerd::Dockerd,
    host::{Host, Ran},
    image::build::with_tiny,
};

const DOCKERFILE: &str = "FROM tiny:1\nCOPY lock /lock\n\
    RUN mkdir /opt && cat /lock > /opt/made\nENV FROM_IMAGE=yes CHOSEN=image\n";

fn run(dockerd: &Dockerd, host: &Host, flags: &[&str]) -> Ran {
    let script = "cat /opt/made; echo $FROM_IMAGE $CHOSEN $HOME; pwd";
    let program = ["--", "/bin/sh", "-c", script];
    dockerd.bulkhead(host, &[&["run", "--backend", "docker"], flags, &program[..]].concat())
}

#[test]
fn only_a_daemon_needs_the_image_of_a_project() {
    let host = Host::new();
    host.write("project/.sandbox/Dockerfile", "FROM a:1\nRUN id\n");
    let ran = host.bulkhead(["run", "--backend", "docker", "--", "true"]);
    assert!(ran.stderr.contains("[BH-E022]"), "{}", ran.shown());
    // Nobody has trusted the file, and natively nobody asks for it.
    let ran = host.bulkhead(["run", "--backend", "native", "--", "true"]);
    assert_eq!(ran.code, Some(0), "{}", ran.shown());
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn a_run_builds_the_image_of_its_project_once() {
    let dockerd = Dockerd::start();
    with_tiny(&dockerd);
    let host = Host::new();
    host.write("project/.sandbox/Dockerfile", DOCKERFILE);
    host.write("project/lock", "a==1\n");

    let refused = run(&dockerd, &host, &[]);
    assert_eq!(refused.code, Some(125), "{}", refused.shown());
    assert!(refused.stderr.contains("[BH-E004]"), "{}", refused.shown());
    assert!(refused.stderr.contains("type: bulkhead trust"), "{}", refused.shown());
    let images = || dockerd.docker(["images", "-q"]).stdout.lines().count();
    assert_eq!(images(), 1, "nothing was built");

    assert_eq!(host.bulkhead(["trust", ".sandbox/Dockerfile"]).code, Some(0));
    let first = run(&dockerd, &host, &[]);
    assert_eq!(first.code, Some(0), "{}", first.shown());
    assert_eq!(first.stdout, "a==1\nyes image /home/sandbox\n[HOST]/project\n");
    assert!(first.stderr.contains("built bulkhead/project:"), "{}", first.shown());
    let after = images();

    // The second asks for no build and makes nothing; the caller's own variables go first.
    let second = run(&dockerd, &host, &["-e", "CHOSEN=caller"]);
    assert_eq!(second.stdout, "a==1\nyes caller /home/sandbox\n[HOST]/project\n");
    assert!(!second.stderr.contains("step "), "{}", second.shown());
    assert!(!second.stderr.contains("built "), "{}", second.shown());
    assert_eq!(images(), after);

    host.write("project/lock", "a==2\n");
    assert!(run(&dockerd, &host, &[]).stdout.starts_with("a==2\n"));

    // A step that wants the network says what to type.
    host.write("project/.sandbox/Dockerfile", "FROM tiny:1\nRUN cat /nowhere\n");
    assert_eq!(host.bulkhead(["trust", ".sandbox/Dockerfile"]).code, Some(0));
    let failed = run(&dockerd, &host, &[]);
    assert_eq!(failed.code, Some(125), "{}", failed.shown());
    assert!(failed.stderr.contains("bulkhead image build --network"), "{}", failed.shown());
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn a_devcontainer_says_which_image_and_variables_and_where_to_start() {
    let dockerd = Dockerd::start();
    with_tiny(&dockerd);
    let host = Host::new();
    let file = ".devcontainer/devcontainer.json";
    host.write("project/api/made", "");
    let say = |text: &str| host.write(&format!("project/{file}"), text);
    let trusted = |path: &str| assert_eq!(host.bulkhead(["trust", path]).code, Some(0));
    say(
        "{ \"image\": \"tiny:1\", \"containerEnv\": { \"CHOSEN\": \"file\", \"HOME\": \"/\" }, \
         \"workspaceFolder\": \"/workspaces/project/api\" }",
    );
    let script = "echo $CHOSEN $HOME; pwd";
    let run = || {
        let args = ["run", "--backend", "docker", "--", "/bin/sh", "-c", script];
        dockerd.bulkhead(&host, &args)
    };
    assert!(run().stderr.contains("[BH-E004]"), "{}", run().shown());
    trusted(file);
    let ran = run();
    assert_eq!(ran.stdout, "file /home/sandbox\n[HOST]/project/api\n", "{}", ran.shown());

    say("{ \"build\": { \"dockerfile\": \"Dockerfile\", \"context\": \"..\" }, \
         \"containerEnv\": { \"CHOSEN\": \"file\" } }");
    host.write("project/.devcontainer/Dockerfile", DOCKERFILE);
    host.write("project/lock", "a==1\n");
    trusted(file);
    assert!(run().stderr.contains("[BH-E004]"), "the Dockerfile needs trust of its own");
    trusted(".devcontainer/Dockerfile");
    let ran = run();
    assert_eq!(ran.stdout, "file /home/sandbox\n[HOST]/project\n", "{}", ran.shown());

    say("{ \"image\": \"tiny:1\", \"privileged\": true }");
    let ran = run();
    assert_eq!(ran.code, Some(125), "{}", ran.shown());
    assert!(ran.stderr.contains("takes all walls away"), "{}", ran.shown());
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn without_a_recipe_a_daemon_shows_its_image_and_none_of_the_hosts_toolchains() {
    let dockerd = Dockerd::start();
    let host = Host::new();
    // A toolchain as version managers install it, first on the PATH.
    host.write("home/.nvm/versions/node/v20.0.0/bin/node", "#!/bin/sh\n");
    let bin = host.home().join(".nvm/versions/node/v20.0.0/bin");
    let run = |flags: &[&str]| {
        let script = "echo $PATH; test -e $0 && echo shown || echo hidden";
        let program = ["--", "/bin/sh", "-c", script, bin.to_str().unwrap()];
        let args = [&["run", "--backend", "docker"], flags, &program[..]].concat();
        let mut command = host.command(&args);
        let path = format!("{}:/usr/bin:/bin", bin.display());
        host.ended(command.env("DOCKER_HOST", dockerd.host()).env("PATH", path))
    };
    let missing = run(&[]);
    assert_eq!(missing.code, Some(125), "{}", missing.shown());
    assert!(missing.stderr.contains("bulkhead image bootstrap"), "{}", missing.shown());

    with_tiny(&dockerd);
    host.write("tagged/Dockerfile", "FROM tiny:1\nENV PATH=/own:/bin\n");
    let context = host.path().join("tagged");
    let tagged =
        dockerd.docker(["build", "-q", "-t", "bulkhead/agent", context.to_str().unwrap()]);
    assert_eq!(tagged.code, Some(0), "{}", tagged.shown());
    for flags in [&[][..], &["--image", "none"], &["--image", "bulkhead/agent"]] {
        let ran = run(flags);
        assert_eq!(ran.stdout, "/own:/bin\nhidden\n", "{flags:?}: {}", ran.shown());
    }
}
