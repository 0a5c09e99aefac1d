//! Connections walked through GraphQL, page by page, both ways.

use serde_json::{Value, json};

use crate::api::Api;

/// A connection: a query for its `totalCount`, `pageInfo` and `nodes` with the variables `first`,
/// `after`, `last` and `before`, and its place in the data.
pub struct Connection<'a> {
    pub text: &'a str,
    pub variables: Value,
    pub pointer: &'a str,
}

impl Connection<'_> {
    /// Its nodes, walked forward in pages of this size; checks what each page says of its
    /// neighbors.
    pub async fn forward(&self, api: &Api, page: usize) -> Vec<Value> {
        let (mut nodes, mut cursor) = (vec![], Value::Null);
        loop {
            let asked = self.page(api, json!({ "first": page, "after": cursor }));
            let connection = asked.await;
            let info = &connection["pageInfo"];
            assert_eq!(info["hasPreviousPage"], !nodes.is_empty(), "{info}");
            nodes.extend(connection["nodes"].as_array().unwrap().iter().cloned());
            let more = connection["totalCount"] != nodes.len();
            assert_eq!(info["hasNextPage"], more, "{connection}");
            if !more {
                return nodes;
            }
            cursor = info["endCursor"].clone();
        }
    }

    /// Its nodes in the same order, walked backward.
    pub async fn backward(&self, api: &Api, page: usize) -> Vec<Value> {
        let (mut nodes, mut cursor) = (vec![], Value::Null);
        loop {
            let asked = self.page(api, json!({ "last": page, "before": cursor }));
            let connection = asked.await;
            let info = &connection["pageInfo"];
            assert_eq!(info["hasNextPage"], !nodes.is_empty(), "{info}");
            nodes.splice(0..0, connection["nodes"].as_array().unwrap().iter().cloned());
            let more = connection["totalCount"] != nodes.len();
            assert_eq!(info["hasPreviousPage"], more, "{connection}");
            if !more {
                return nodes;
            }
            cursor = info["startCursor"].clone();
        }
    }

    /// Its nodes; checks that they are the same both ways and in pages of any size.
    pub async fn nodes(&self, api: &Api) -> Vec<Value> {
        let nodes = self.forward(api, 1000).await;
        assert_eq!(self.forward(api, 3).await, nodes, "{}", self.variables);
        assert_eq!(self.backward(api, 4).await, nodes, "{}", self.variables);
        nodes
    }

    /// One page; null where there is none, such as of a member that SQL does not have yet.
    pub async fn page(&self, api: &Api, page: Value) -> Value {
        let mut variables = self.variables.clone();
        let page = page.as_object().unwrap().clone();
        variables.as_object_mut().unwrap().extend(page);
        let mut data = api.data(self.text, variables).await;
        data.pointer_mut(self.pointer).map(Value::take).unwrap_or_default()
    }
}

/// A field of each node, as text.
pub fn texts(nodes: &[Value], pointer: &str) -> Vec<String> {
    let text = |node: &Value| node.pointer(pointer).unwrap().as_str().unwrap().to_owned();
    nodes.iter().map(text).collect()
}
