//! Questions about the schema: circles are refused, tools are answered, and a setting ends both.

use tests::attack::introspection::{circles, hidden, of_types, wide};
use tests::attack::request::Attack;
use tests::attack::{Attacked, UNRATED};
use tests::model::schema::INTROSPECTION;

#[tokio::test]
async fn circles_in_the_schema_are_refused_for_little() {
    let server = Attacked::start().await;
    let tools = vec![of_types(9).served(), Attack::query("GraphiQL", INTROSPECTION).served()];
    server.withstands(&[circles(9), circles(4), hidden(), wide(), tools].concat()).await;
}

#[tokio::test]
async fn a_setting_says_who_may_ask_for_the_schema() {
    let schema = Attack::query("the schema", INTROSPECTION);
    let name = Attack::query("a type", "{ __type(name: \"Board\") { name } }");
    let near = Attack::query("a name that is nearly right", "{ bord(slug: \"b\") { slug } }");
    let own = Attack::query("the name of an object's type", "{ __typename }").served();
    for (setting, with_token) in [("tokens", true), ("off", false)] {
        let settings = [&UNRATED[..], &[("LAUREL_INTROSPECTION", setting)]].concat();
        let server = Attacked::start_with(&settings).await;
        let mut attacks = vec![schema.clone(), name.clone(), own.clone()];
        for attack in [&schema, &name] {
            let attack = attack.clone().as_admin();
            attacks.push(if with_token { attack.served() } else { attack });
        }
        server.withstands(&attacks).await;
        let told = server.send(&near).await.unwrap();
        assert!(
            told.shown().contains("bord") && !told.shown().contains("board"),
            "{}",
            told.shown()
        );
    }
}
