use std::path::Path;

use super::*;

fn agent(name: &str) -> Agent {
    let profile = Profile::built_in(name).unwrap().unwrap();
    Agent { name: name.to_owned(), profile, file: None }
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().copied().collect()
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

#[test]
fn every_profile_can_be_used() {
    for name in Profile::names() {
        let agent = agent(name);
        let layer = agent.layer(&environment(&[])).unwrap();
        assert_eq!(layer.network, Some(Network::Proxy), "{name}");
        assert!(layer.way_out.secrets.is_empty(), "{name}: there is no key here");
        for binding in &agent.profile.secrets {
            let SecretSource::Variable(variable) = &binding.source else { panic!("{name}") };
            let has = environment(&[(variable, "x")]);
            let bound = agent.layer(&has).unwrap().way_out.secrets;
            assert_eq!(bound.len(), 1, "{name}: {variable}");
        }
        assert!(!agent.warnings(&environment(&[]), Network::Proxy).is_empty(), "{name}");
    }
}

#[test]
fn the_caller_decides_about_permissions() {
    let (claude, codex) = (agent("claude"), agent("codex"));
    let cases = [
        (&claude, vec!["claude", "-p", "hi"], "claude --dangerously-skip-permissions -p hi"),
        (&claude, vec!["claude"], "claude --dangerously-skip-permissions"),
        (&claude, vec!["claude", "--permission-mode=plan"], "claude --permission-mode=plan"),
        (&codex, vec!["codex", "-s", "read-only", "hi"], "codex -s read-only hi"),
    ];
    for (agent, typed, run) in cases {
        let argv = agent.argv(&words(&typed));
        assert_eq!(argv.join(OsStr::new(" ")), run);
    }
}

#[test]
fn a_key_for_another_place_goes_there_and_nowhere_else() {
    let has = environment(&[
        ("ANTHROPIC_API_KEY", "x"),
        ("ANTHROPIC_BASE_URL", "https://models.example.com:8443/v1"),
    ]);
    let layer = agent("claude").layer(&has).unwrap();
    let rules: Vec<String> = layer.way_out.allow.iter().map(|it| it.text.clone()).collect();
    assert_eq!(rules, ["anthropic", "https://models.example.com:8443"]);
    let secrets: Vec<String> =
        layer.way_out.secrets.iter().map(|it| it.value.to_string()).collect();
    assert_eq!(secrets, ["ANTHROPIC_API_KEY@models.example.com"]);
    for wrong in ["http://models.example.com", "https://", "https://*.example.com", "nonsense"]
    {
        let has = environment(&[("ANTHROPIC_BASE_URL", wrong)]);
        assert!(agent("claude").layer(&has).is_err(), "{wrong}");
    }
}

#[test]
fn of_two_sources_of_one_key_the_first_counts() {
    let has = environment(&[("OPENAI_API_KEY", "x"), ("CODEX_API_KEY", "y")]);
    let secrets = agent("codex").secrets(&has);
    let texts: Vec<String> = secrets.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["CODEX_API_KEY@api.openai.com"]);
}

#[test]
fn a_profile_that_leads_out_of_its_directory_is_none() {
    for path in ["/etc", "../x", "a/../b", "", "a//b", "."] {
        let text = format!("says = 'x'\nprogram = 'x'\nstate = '{path}'");
        assert!(Profile::parse(&text).is_err(), "{path}");
    }
    assert!(Profile::parse("says = 'x'\nprogram = 'x'\nsurprise = 1").is_err());
}

#[test]
fn the_directory_of_the_agent_is_below_its_home() {
    let env = agent("claude").env(&environment(&[]), Path::new("/home/ada"));
    let dir = env.get(OsStr::new("CLAUDE_CONFIG_DIR")).unwrap();
    assert_eq!(dir, "/home/ada/.claude");
}
