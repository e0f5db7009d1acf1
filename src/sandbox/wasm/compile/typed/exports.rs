//! Which exports of a component are functions that its author means to be called.

use wasmparser::component_types::{ComponentEntityType, ComponentFuncTypeId, ComponentInstanceTypeId};
use wasmparser::types::TypesRef;

/// The parameters of the function `init` that componentize-qjs adds to what it makes.
const QJS_INIT: [&str; 4] = ["shim", "script", "entry-path", "disable-gc"];

/// Longest name of a function, in bytes. Longer ones are no names but a way to fill lists.
const MAX_NAME: usize = 256;

/// An exported function.
pub(super) struct Exported {
    /// The exported interface it is in, by its whole name.
    pub(super) instance: Option<String>,
    /// Its name there, as it is written.
    pub(super) name: String,
    pub(super) id: ComponentFuncTypeId,
}

/// All of them among `names`, in the order of the component.
pub(super) fn find(types: TypesRef<'_>, names: &[String]) -> Vec<Exported> {
    let mut found = Vec::new();
    for name in names {
        match types.component_item_for_export(name).map(|item| item.ty) {
            Some(ComponentEntityType::Func(id)) if name.len() <= MAX_NAME && !is_qjs_init(types, name, id) => {
                found.push(Exported { instance: None, name: name.clone(), id });
            }
            Some(ComponentEntityType::Instance(id)) if !name.starts_with("wasi:") && !is_python(types, name, id) => {
                let instance = Some(name);
                found.extend(functions(&types, id).map(|(name, id)| Exported {
                    instance: instance.cloned(),
                    name: name.to_owned(),
                    id,
                }));
            }
            _ => {}
        }
    }
    found
}

fn functions<'a>(
    types: &'a TypesRef<'_>,
    id: ComponentInstanceTypeId,
) -> impl Iterator<Item = (&'a str, ComponentFuncTypeId)> {
    types[id].exports.iter().filter_map(|(name, item)| match item.ty {
        ComponentEntityType::Func(id) if name.len() <= MAX_NAME => Some((name.as_str(), id)),
        _ => None,
    })
}

fn is_qjs_init(types: TypesRef<'_>, name: &str, id: ComponentFuncTypeId) -> bool {
    name == "init" && types[id].params.iter().map(|(name, _)| name.as_str()).eq(QJS_INIT)
}

/// Whether it is what componentize-py keeps for itself.
fn is_python(types: TypesRef<'_>, name: &str, id: ComponentInstanceTypeId) -> bool {
    name == "exports" && functions(&types, id).map(|(name, _)| name).eq(["init"])
}
