//! Layers only narrow, whatever they say and in whatever order they come.

use std::collections::BTreeSet;

use bulkhead_policy::{ImageRule, Plan, Policy, resolve};
use bulkhead_spec::{
    Access, Bytes, Cpus, EnvFiles, Exec, Guarantee, Guarantees, HostPath, ImageRef,
    ImageSource, Limits, Mount, Network, Pull, Root, Span, Spec, Walls, Workspace,
};
use proptest::{option::weighted, prelude::*, sample::subsequence};

const PATHS: [&str; 7] = ["/", "/a", "/a/b", "/a/b/c", "/ab", "/d", "/run/x"];

fn path() -> impl Strategy<Value = HostPath> {
    let often = prop::sample::select(PATHS[1..6].to_vec());
    let any = prop::sample::select(PATHS.to_vec());
    prop_oneof![20 => often, 1 => any].prop_map(|it| it.parse().unwrap())
}

/// Few values, so that they meet; now and then one below the floor.
fn step(likely: f64) -> impl Strategy<Value = Option<u32>> {
    weighted(likely, prop_oneof![1 => Just(0_u32), 40 => 1_u32..5])
}

fn limits(likely: f64) -> impl Strategy<Value = Limits> {
    prop::array::uniform9(step(likely)).prop_map(|steps| {
        let [memory, cpus, pids, disk, inodes, cpu_time, timeout, output, files] = steps;
        let bytes = |it: u32| Bytes(u64::from(it) << 24);
        let span = |it: u32| Span(std::time::Duration::from_secs(it.into()));
        Limits {
            memory: memory.map(bytes),
            cpus: cpus.and_then(|it| Cpus::from_millis(it * 500).ok()),
            pids: pids.map(|it| it * 10),
            disk: disk.map(bytes),
            inodes: inodes.map(|it| u64::from(it) * 100),
            cpu_time: cpu_time.map(span),
            timeout: timeout.map(span),
            output: output.map(bytes),
            files: files.map(|it| it * 20),
        }
    })
}

fn network() -> impl Strategy<Value = Network> {
    prop_oneof![Just(Network::None), Just(Network::Open)]
}

fn guarantees(most: usize) -> impl Strategy<Value = Guarantees> {
    subsequence(Guarantee::ALL.to_vec(), 0..=most).prop_map(|it| it.into_iter().collect())
}

/// What a backend upholds that is rather good, so that it is not refused each time.
fn upheld() -> impl Strategy<Value = Guarantees> {
    let all = Guarantee::ALL.to_vec();
    let most = all.len();
    subsequence(all, most - 4..=most).prop_map(|it| it.into_iter().collect())
}

fn policy() -> impl Strategy<Value = Policy> {
    let mountable = weighted(0.5, prop::collection::btree_set(path(), 0..5));
    (limits(0.3), limits(0.3), network(), mountable, images(), guarantees(3)).prop_map(
        |(ceiling, defaults, network, mountable, images, require)| Policy {
            ceiling,
            defaults,
            network,
            egress: bulkhead_policy::EgressCeiling::default(),
            mountable,
            images,
            require,
        },
    )
}

/// Names that are below each other in several ways.
const REGISTRIES: [&str; 5] =
    ["r.example", "r.example/a", "r.example/a/b", "r.example/ab", "s.example"];

fn images() -> impl Strategy<Value = Option<BTreeSet<ImageRule>>> {
    let below = prop::sample::select(&REGISTRIES[..]).prop_map(|it| it.parse().unwrap());
    let rule = prop_oneof![4 => below, 1 => Just(ImageRule::Local)];
    weighted(0.5, prop::collection::btree_set(rule, 0..4))
}

fn image() -> impl Strategy<Value = ImageRef> {
    let name = |it: &str| format!("{it}/x").parse().unwrap();
    let remote = prop::sample::select(&REGISTRIES[..])
        .prop_map(move |it| ImageSource::Registry(name(it)));
    let local = Just(ImageSource::Daemon("x".parse().unwrap()));
    prop_oneof![4 => remote, 1 => local]
        .prop_map(|source| ImageRef { source, pull: Pull::Missing })
}

fn spec() -> impl Strategy<Value = Spec> {
    let root = prop_oneof![5 => Just(Root::Host), 1 => path().prop_map(Root::Directory), 3 => image().prop_map(Root::Image)];
    let workspace = weighted(0.5, path()).prop_map(|dir| {
        let (access, env_files) = (Access::ReadWrite, EnvFiles::Hidden);
        dir.map(|dir| Workspace { dir, access, env_files, unprotected: Vec::new() })
    });
    let mount = path().prop_map(|from| Mount {
        from,
        to: "/shared".parse().unwrap(),
        access: Access::ReadOnly,
    });
    let mounts = prop::collection::vec(mount, 0..3);
    let network = prop_oneof![4 => Just(Network::None), 1 => Just(Network::Open)];
    let walls = prop_oneof![4 => Just(Walls::Up), 1 => Just(Walls::Waived)];
    (root, workspace, mounts, limits(0.15), network, walls, guarantees(3)).prop_map(
        |(root, workspace, mounts, limits, network, walls, require)| Spec {
            root,
            workspace,
            mounts,
            limits,
            network,
            walls,
            require,
            ..Spec::default()
        },
    )
}

/// Whether each limit is at most the other's; no limit is the highest.
fn within(limits: &Limits, other: &Limits) -> bool {
    limits.lowest(*other) == *limits
}

fn holds_all(guarantees: &Guarantees, others: &Guarantees) -> bool {
    others.missing_from(guarantees).is_empty()
}

/// All that a plan says apart from limits and promises.
fn shape(plan: &Plan) -> serde_json::Value {
    let mut json = serde_json::to_value(plan).unwrap();
    for key in ["limits", "require", "prefer"] {
        json.as_object_mut().unwrap().remove(key).unwrap();
    }
    json
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_global_rejects: 4000, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_two_layers_does_not_matter(a in policy(), b in policy()) {
        prop_assert_eq!(a.clone().narrowed_by(b.clone()), b.narrowed_by(a));
    }

    #[test]
    fn the_grouping_of_layers_does_not_matter(a in policy(), b in policy(), c in policy()) {
        let left = a.clone().narrowed_by(b.clone()).narrowed_by(c.clone());
        prop_assert_eq!(left, a.narrowed_by(b.narrowed_by(c)));
    }

    #[test]
    fn saying_a_layer_twice_changes_nothing(a in policy(), b in policy()) {
        prop_assert_eq!(a.clone().narrowed_by(a.clone()), a.clone());
        let both = a.narrowed_by(b.clone());
        prop_assert_eq!(both.clone().narrowed_by(b), both);
    }

    #[test]
    fn a_layer_that_says_nothing_changes_nothing(a in policy()) {
        prop_assert_eq!(a.clone().narrowed_by(Policy::default()), a);
    }

    #[test]
    fn the_order_of_many_layers_does_not_matter(
        (layers, shuffled) in prop::collection::vec(policy(), 1..6)
            .prop_flat_map(|layers| (Just(layers.clone()), Just(layers).prop_shuffle())),
        spec in spec(),
    ) {
        let answer = |layers: Vec<Policy>| {
            let policy = layers.into_iter().reduce(Policy::narrowed_by).unwrap();
            resolve(spec.clone(), &policy)
                .map(|plan| serde_json::to_value(plan).unwrap())
                .map_err(|denial| denial.to_string())
        };
        prop_assert_eq!(answer(layers), answer(shuffled));
    }

    #[test]
    fn a_mount_is_allowed_by_two_layers_if_each_allows_it(
        a in policy(),
        b in policy(),
        from in path(),
    ) {
        let mount = Mount { from, to: "/shared".parse().unwrap(), access: Access::ReadOnly };
        let spec = Spec { mounts: vec![mount], ..Spec::default() };
        let only = |mountable: Option<BTreeSet<HostPath>>| Policy { mountable, ..Policy::default() };
        let (a, b) = (only(a.mountable), only(b.mountable));
        let allowed = |policy: &Policy| resolve(spec.clone(), policy).is_ok();
        prop_assert_eq!(allowed(&a) && allowed(&b), allowed(&a.narrowed_by(b)));
    }

    #[test]
    fn a_layer_never_enlarges_a_plan(
        spec in spec(),
        a in policy(),
        b in policy(),
        upheld in upheld(),
        timeout in step(0.5),
    ) {
        let narrow = resolve(spec.clone(), &a.clone().narrowed_by(b));
        prop_assume!(narrow.is_ok());
        let narrow = narrow.unwrap();
        let wide = resolve(spec, &a);
        prop_assert!(wide.is_ok(), "{:?}", wide);
        let wide = wide.unwrap();
        prop_assert!(within(narrow.limits(), wide.limits()));
        prop_assert!(holds_all(narrow.require(), wide.require()));
        prop_assert_eq!(shape(&narrow), shape(&wide));

        // Nor does it let a program in, or keep it longer.
        let timeout = timeout.map(|it| Span(std::time::Duration::from_secs(it.into())));
        let exec = Exec { argv: vec!["p".into()], timeout, ..Exec::default() };
        if let Ok(admitted) = narrow.admit(exec.clone()) {
            let admitted = admitted.timeout();
            let without = wide.admit(exec).unwrap().timeout();
            prop_assert!(without.is_none_or(|most| admitted.is_some_and(|it| it <= most)));
        }

        // Nor does it help a backend that cannot hold everything.
        if let Ok(narrow) = narrow.settle(&upheld) {
            let wide = wide.settle(&upheld);
            prop_assert!(wide.is_ok(), "{:?}", wide);
            prop_assert!(within(narrow.plan.limits(), wide.unwrap().plan.limits()));
        }
    }

    #[test]
    fn a_plan_never_exceeds_its_policy(spec in spec(), policy in policy()) {
        let plan = resolve(spec.clone(), &policy);
        prop_assume!(plan.is_ok());
        let plan = plan.unwrap();
        prop_assert!(within(plan.limits(), &policy.ceiling));
        prop_assert!(within(plan.limits(), &spec.limits));
        prop_assert!(plan.network() <= policy.network);
        prop_assert!(holds_all(plan.require(), &policy.require));
        prop_assert!(holds_all(plan.require(), &spec.require));
        prop_assert!(plan.prefer().shared_with(plan.require()).is_empty());
        let root = match plan.root() {
            Root::Host | Root::Image(_) => None,
            Root::Directory(dir) => Some(dir),
        };
        let shared = plan.mounts().iter().map(|it| &it.from);
        let shared = shared.chain(plan.workspace().map(|it| &it.dir)).chain(root);
        for dir in shared {
            let allowed = policy.mountable.as_ref();
            let allowed = allowed.is_none_or(|roots| roots.iter().any(|root| root.holds(dir)));
            prop_assert!(allowed, "{}", dir);
        }
    }

    #[test]
    fn a_backend_gets_only_limits_that_it_can_hold(
        spec in spec(),
        policy in policy(),
        upheld in upheld(),
    ) {
        let plan = resolve(spec, &policy);
        prop_assume!(plan.is_ok());
        let plan = plan.unwrap();
        let lacking = plan.require().missing_from(&upheld);
        let wanted = plan.require().clone() | plan.prefer().clone();
        match plan.settle(&upheld) {
            Err(said) => {
                prop_assert!(!lacking.is_empty());
                prop_assert_eq!(said, lacking);
            }
            Ok(settled) => {
                prop_assert!(lacking.is_empty());
                prop_assert_eq!(settled.missing, wanted.missing_from(&upheld));
                prop_assert!(holds_all(&upheld, settled.plan.prefer()));
                let Limits { memory, cpus, pids, disk, inodes, cpu_time, timeout: _, output, files } =
                    *settled.plan.limits();
                let held = [
                    (memory.is_some(), Guarantee::MemoryBounded),
                    (cpus.is_some(), Guarantee::CpuBounded),
                    (pids.is_some(), Guarantee::ProcessesBounded),
                    (disk.is_some(), Guarantee::DiskBounded),
                    (inodes.is_some(), Guarantee::DiskBounded),
                    (cpu_time.is_some(), Guarantee::CpuTimeBounded),
                    (output.is_some(), Guarantee::OutputBounded),
                    (files.is_some(), Guarantee::OpenFilesBounded),
                ];
                for (limited, by) in held {
                    prop_assert!(!limited || upheld.contains(by), "{}", by);
                }
            }
        }
    }
}
