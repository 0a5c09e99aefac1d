//! The types of the schema, for checks of requests and answers.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use async_graphql::parser::types::{Type, TypeKind, TypeSystemDefinition};
use async_graphql_value::Name;

/// The types of Laurel's schema.
pub static TYPES: LazyLock<Types> = LazyLock::new(Types::of_schema);

/// The types of a schema.
pub struct Types {
    /// The fields of objects and interfaces, by the names of both.
    fields: HashMap<Name, HashMap<Name, Type>>,
    input_objects: HashSet<Name>,
}

impl Types {
    fn of_schema() -> Self {
        let schema = async_graphql::parser::parse_schema(crate::graphql::sdl());
        let mut types = Self { fields: HashMap::new(), input_objects: HashSet::new() };
        for definition in schema.expect("the schema is valid").definitions {
            let TypeSystemDefinition::Type(of) = definition else {
                continue;
            };
            let fields = match of.node.kind {
                TypeKind::Object(object) => object.fields,
                TypeKind::Interface(interface) => interface.fields,
                TypeKind::InputObject(_) => {
                    types.input_objects.insert(of.node.name.node);
                    continue;
                }
                _ => continue,
            };
            let fields = fields.into_iter().map(|field| (field.node.name.node, field.node.ty.node));
            types.fields.insert(of.node.name.node, fields.collect());
        }
        types
    }

    /// The type of a field of an object or interface; `None` if there is no such field.
    pub fn of_field(&self, type_name: &str, field: &str) -> Option<&Type> {
        self.fields.get(type_name)?.get(field)
    }

    /// True if it is the name of an input object.
    pub fn is_input_object(&self, type_name: &str) -> bool {
        self.input_objects.contains(type_name)
    }
}
