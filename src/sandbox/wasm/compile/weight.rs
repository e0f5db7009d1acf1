//! What an instance takes of the host's memory beside its linear memories and tables.
//!
//! The engine keeps something for each function, global, import and segment of a core module, and a copy
//! of each passive element segment, once for every core instance. `limits.memoryMb` counts none of it, and
//! a small component can ask for gigabytes: so it is added up here, and bounded at the upload.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind, ComponentTypeRef, ElementItems,
    ElementKind, Encoding, Instance, Parser, Payload,
};

use crate::model::plain;

use super::super::engine::MAX_CORE_INSTANCES;
use super::inspect::MAX_TEXT;

/// Most of it, in bytes. What the largest runtimes take is a twentieth of this.
const MAX_WEIGHT: u64 = 16 << 20;
/// What one function, global, import or segment takes at most.
const ITEM: u64 = 32;
/// What one element of a passive segment takes.
const ELEMENT: u64 = 16;

/// A module or a component of which something is added up.
#[derive(Default)]
struct Frame {
    is_module: bool,
    /// What one instance of it takes.
    weight: u64,
    /// What instances of the modules and components in it take, by their indices; none if unknown.
    modules: Vec<Option<u64>>,
    components: Vec<Option<u64>>,
}

/// Refuses what takes much of the host's memory that no limit counts.
///
/// # Errors
///
/// Why, in a sentence for the uploader.
pub(super) fn require_light(bytes: &[u8]) -> Result<(), String> {
    let weight = of(bytes).map_err(|error| plain(&error.to_string(), MAX_TEXT))?;
    if weight <= MAX_WEIGHT {
        return Ok(());
    }
    Err(format!(
        "each instance of it takes {weight} bytes for functions, globals and passive elements, and {MAX_WEIGHT} is the \
         most; it may have fewer of them, or fewer core instances"
    ))
}

/// Adds up what an instance of `bytes` takes; more than it does where that is not plain to see.
///
/// # Errors
///
/// As the parser gives them.
fn of(bytes: &[u8]) -> wasmparser::Result<u64> {
    let heaviest = heaviest(bytes)?;
    // A component has no more core instances than this, however they are nested.
    let most = heaviest.saturating_mul(u64::from(MAX_CORE_INSTANCES));
    let unknown = (heaviest, most);
    let mut frames: Vec<Frame> = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { encoding, .. } => {
                frames.push(Frame { is_module: encoding == Encoding::Module, ..Frame::default() });
            }
            Payload::End(_) => {
                let Some(done) = frames.pop() else { continue };
                let Some(outer) = frames.last_mut() else { return Ok(done.weight.min(most)) };
                let list = if done.is_module { &mut outer.modules } else { &mut outer.components };
                list.push(Some(done.weight));
            }
            payload => add(&mut frames, &payload, unknown)?,
        }
    }
    Ok(most)
}

/// The weight of the heaviest module, wherever it is.
fn heaviest(bytes: &[u8]) -> wasmparser::Result<u64> {
    let (mut heaviest, mut weights) = (0, Vec::new());
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { .. } => weights.push(0_u64),
            Payload::End(_) => heaviest = heaviest.max(weights.pop().unwrap_or_default()),
            payload => {
                if let (Some(weight), more) = (weights.last_mut(), of_section(&payload)?) {
                    *weight = weight.saturating_add(more);
                }
            }
        }
    }
    Ok(heaviest)
}

/// What a section of a core module adds to each instance of it.
fn of_section(payload: &Payload<'_>) -> wasmparser::Result<u64> {
    let items = match payload {
        Payload::ImportSection(section) => section.count(),
        Payload::FunctionSection(section) => section.count(),
        Payload::GlobalSection(section) => section.count(),
        Payload::TableSection(section) => section.count(),
        Payload::MemorySection(section) => section.count(),
        Payload::DataSection(section) => section.count(),
        Payload::ElementSection(section) => {
            let mut elements = 0_u64;
            for element in section.clone() {
                let element = element?;
                if !matches!(element.kind, ElementKind::Active { .. }) {
                    elements = elements.saturating_add(match element.items {
                        ElementItems::Functions(items) => u64::from(items.count()),
                        ElementItems::Expressions(_, items) => u64::from(items.count()),
                    });
                }
            }
            return Ok(elements.saturating_mul(ELEMENT) + u64::from(section.count()) * ITEM);
        }
        _ => 0,
    };
    Ok(u64::from(items) * ITEM)
}

fn add(frames: &mut [Frame], payload: &Payload<'_>, (module, component): (u64, u64)) -> wasmparser::Result<()> {
    let at = frames.len().saturating_sub(1);
    match payload {
        Payload::InstanceSection(section) => {
            for instance in section.clone() {
                if let Instance::Instantiate { module_index, .. } = instance? {
                    let known = frames[at].modules.get(module_index as usize).copied().flatten();
                    frames[at].weight = frames[at].weight.saturating_add(known.unwrap_or(module));
                }
            }
        }
        Payload::ComponentInstanceSection(section) => {
            for instance in section.clone() {
                if let ComponentInstance::Instantiate { component_index, .. } = instance? {
                    let known = frames[at].components.get(component_index as usize).copied().flatten();
                    frames[at].weight = frames[at].weight.saturating_add(known.unwrap_or(component));
                }
            }
        }
        Payload::ComponentAliasSection(section) => {
            for alias in section.clone() {
                aliased(frames, at, alias?);
            }
        }
        Payload::ComponentImportSection(section) => {
            for import in section.clone() {
                match import?.ty {
                    ComponentTypeRef::Module(_) => frames[at].modules.push(None),
                    ComponentTypeRef::Component(_) => frames[at].components.push(None),
                    _ => {}
                }
            }
        }
        Payload::ComponentExportSection(section) => {
            for export in section.clone() {
                let export = export?;
                // What is exported has a new index besides its old one.
                name_again(&mut frames[at], export.kind, export.index as usize);
            }
        }
        payload => frames[at].weight = frames[at].weight.saturating_add(of_section(payload)?),
    }
    Ok(())
}

fn aliased(frames: &mut [Frame], at: usize, alias: ComponentAlias<'_>) {
    match alias {
        ComponentAlias::InstanceExport { kind: ComponentExternalKind::Module, .. } => frames[at].modules.push(None),
        ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => {
            frames[at].components.push(None);
        }
        ComponentAlias::Outer { kind, count, index } => {
            let outer = at.checked_sub(count as usize).map(|at| &frames[at]);
            let of = |list: fn(&Frame) -> &Vec<Option<u64>>| {
                outer.and_then(|outer| list(outer).get(index as usize).copied().flatten())
            };
            match kind {
                ComponentOuterAliasKind::CoreModule => {
                    let known = of(|frame| &frame.modules);
                    frames[at].modules.push(known);
                }
                ComponentOuterAliasKind::Component => {
                    let known = of(|frame| &frame.components);
                    frames[at].components.push(known);
                }
                _ => {}
            }
        }
        _ => {}
    }
}

fn name_again(frame: &mut Frame, kind: ComponentExternalKind, index: usize) {
    let list = match kind {
        ComponentExternalKind::Module => &mut frame.modules,
        ComponentExternalKind::Component => &mut frame.components,
        _ => return,
    };
    let known = list.get(index).copied().flatten();
    list.push(known);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(text: &str) -> u64 {
        of(&wat::parse_str(text).unwrap()).unwrap()
    }

    /// A module of three functions and 1,000 elements that lie ready to be copied.
    fn module() -> String {
        let elements = "0 ".repeat(1000);
        format!("(core module $m (func) (func) (func) (elem func {elements}))")
    }

    const ONE: u64 = 4 * ITEM + 1000 * ELEMENT;

    #[test]
    fn each_instance_of_a_module_counts_and_the_module_itself_does_not() {
        let module = module();
        let instance = "(core instance (instantiate $m))";
        assert_eq!(weight(&format!("(component {module})")), 0);
        assert_eq!(weight(&format!("(component {module} {instance} {instance} {instance})")), 3 * ONE);
        assert_eq!(weight("(module (import \"a\" \"f\" (func)) (global i32 (i32.const 0)) (func))"), 3 * ITEM);
        // Active ones are in a table, which is counted as it is.
        assert_eq!(weight("(module (table 1 funcref) (func) (elem (i32.const 0) func 0))"), 3 * ITEM);
        assert_eq!(weight("(module (memory 1) (data \"abc\") (data (i32.const 0) \"d\"))"), 3 * ITEM);
    }

    #[test]
    fn instances_in_components_in_components_count_as_often_as_they_are_made() {
        let module = module();
        let nested = format!(
            "(component {module}
                (component $inner (alias outer 1 $m (core module $own))
                    (core instance (instantiate $own)) (core instance (instantiate $own)))
                (component $middle (alias outer 1 $inner (component $i)) (instance (instantiate $i)) (instance (instantiate $i)))
                (instance (instantiate $middle)) (instance (instantiate $middle)))"
        );
        assert_eq!(weight(&nested), 8 * ONE);
    }

    #[test]
    fn what_is_not_plain_to_see_counts_as_the_heaviest() {
        let module = module();
        let passed = format!(
            "(component {module}
                (component $inner (import \"m\" (core module $own)) (core instance (instantiate $own)))
                (instance (instantiate $inner (with \"m\" (core module $m)))))"
        );
        assert_eq!(weight(&passed), ONE);
    }
}
