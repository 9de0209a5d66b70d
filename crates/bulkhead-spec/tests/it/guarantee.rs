use bulkhead_spec::{
    Guarantee::{
        self, CpuBounded, CpuTimeBounded, DiskBounded, EgressOnlyThroughProxy, HostFilesHidden,
        HostKernelShielded, HostTriggersProtected, MemoryBounded, NoNetwork, NoNewPrivileges,
        NothingSurvives, OpenFilesBounded, OutputBounded, OwnKernel, ProcessesBounded,
        SyscallsFiltered, UnprivilegedOnHost, WorkspaceDiskBounded, WorkspaceOnlyWritable,
    },
    Guarantees,
};
use proptest::prelude::*;

/// The place of each in `ALL`. A new guarantee does not compile until it has one here.
const fn place(guarantee: Guarantee) -> usize {
    match guarantee {
        HostFilesHidden => 0,
        WorkspaceOnlyWritable => 1,
        HostTriggersProtected => 2,
        NoNetwork => 3,
        EgressOnlyThroughProxy => 4,
        MemoryBounded => 5,
        CpuBounded => 6,
        CpuTimeBounded => 7,
        ProcessesBounded => 8,
        OpenFilesBounded => 9,
        DiskBounded => 10,
        WorkspaceDiskBounded => 11,
        OutputBounded => 12,
        NothingSurvives => 13,
        NoNewPrivileges => 14,
        SyscallsFiltered => 15,
        UnprivilegedOnHost => 16,
        HostKernelShielded => 17,
        OwnKernel => 18,
    }
}

#[test]
fn the_list_of_all_has_each_once_and_in_order() {
    let places: Vec<_> = Guarantee::ALL.into_iter().map(place).collect();
    assert_eq!(places, (0..=place(OwnKernel)).collect::<Vec<_>>());
    assert_eq!(Guarantees::all().iter().collect::<Vec<_>>(), Guarantee::ALL);
}

#[test]
fn a_name_is_read_as_it_is_printed_and_as_people_type_it() {
    for guarantee in Guarantee::ALL {
        let name = guarantee.to_string();
        assert_eq!(name.parse(), Ok(guarantee));
        assert_eq!(name.to_lowercase().parse(), Ok(guarantee));
        let json = serde_json::to_string(&guarantee).unwrap();
        assert_eq!(json, format!("\"{name}\""));
        assert_eq!(serde_json::from_str::<Guarantee>(&json).unwrap(), guarantee);
    }
    assert_eq!("no-network".parse(), Ok(NoNetwork));
    assert_eq!("no_new_privileges".parse(), Ok(NoNewPrivileges));
}

#[test]
fn an_unknown_name_is_refused_with_those_that_are_known() {
    for name in ["", "-", "all", "No Network", "NoNetworks", "ＮoNetwork"] {
        assert!(name.parse::<Guarantee>().is_err(), "{name:?}");
    }
    insta::assert_snapshot!("own\u{1b}kernel".parse::<Guarantee>().unwrap_err());
}

fn guarantees() -> impl Strategy<Value = Guarantees> {
    prop::sample::subsequence(Guarantee::ALL.to_vec(), 0..=Guarantee::ALL.len())
        .prop_map(|some| some.into_iter().collect())
}

proptest! {
    #[test]
    fn what_is_missing_and_what_is_shared_make_the_whole(
        wanted in guarantees(),
        upheld in guarantees(),
    ) {
        let (missing, shared) = (wanted.missing_from(&upheld), wanted.shared_with(&upheld));
        prop_assert!(missing.shared_with(&shared).is_empty());
        prop_assert!(missing.shared_with(&upheld).is_empty());
        prop_assert!(shared.missing_from(&upheld).is_empty());
        prop_assert_eq!(missing | shared, wanted);
    }
}
