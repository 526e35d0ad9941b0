//! Generates metadata: the options of an OPEN, and the extensions of records. Checks nothing.

use godwit_proto::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(crate) fn preserve() -> impl Strategy<Value = Preserve> {
    any::<[bool; 7]>().prop_map(|flags| Preserve {
        owner: flags[0],
        group: flags[1],
        xattrs: flags[2],
        acls: flags[3],
        specials: flags[4],
        numeric_ids: flags[5],
        strict: flags[6],
    })
}

/// A value that fits beside its name, or one that needs a second extension.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => vec(any::<u8>(), 0..40),
        1 => (65_200..=65_536_usize, any::<u8>()).prop_map(|(bytes, byte)| vec![byte; bytes]),
    ]
}

fn acl_entry() -> impl Strategy<Value = AclEntry> {
    (1..=6_u8, 0..=7_u8, any::<u32>(), option::of(super::name())).prop_map(
        |(tag, permissions, id, name)| {
            let tag = AclTag(tag);
            let named = matches!(tag, AclTag::USER | AclTag::GROUP);
            AclEntry {
                tag,
                permissions,
                id: if named { id } else { 0 },
                name: name.filter(|_| named).unwrap_or_default(),
            }
        },
    )
}

prop_compose! {
    pub(crate) fn metadata()(
        xattrs in vec((super::name(), value()), 0..3),
        (access, default) in (vec(acl_entry(), 0..6), vec(acl_entry(), 0..6)),
        (owner, group) in (option::of(super::name()), option::of(super::name())),
        device in any::<Option<(u32, u32)>>(),
    ) -> Metadata {
        Metadata { xattrs, access, default, owner, group, device }
    }
}
