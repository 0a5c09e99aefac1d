//! Addresses that are taken, and texts that are refused in words.

use super::*;

fn parse(text: &str) -> Result<Address> {
    Address::parse(text, &CleartextSettings { allow_cleartext: false })
}

#[test]
fn an_address_names_a_broker_and_a_queue() {
    let Address::RabbitMq(address) =
        parse("amqps://u:p%2F@h:5671/%2f?queue=sc%20ores&heartbeat=5").unwrap()
    else {
        panic!("it is of RabbitMQ");
    };
    assert_eq!(
        (&*address.url, &*address.queue),
        ("amqps://u:p%2F@h:5671/%2f?heartbeat=5", "sc ores")
    );
    assert!(address.stream.is_none());
    let Address::RabbitMq(address) = parse("amqps://h/?queue=s&source=s-1&offsets=o").unwrap()
    else {
        panic!("it is of RabbitMQ");
    };
    let stream = address.stream.unwrap();
    assert_eq!((&*stream.source, &*stream.offsets), ("s-1", "o"));
    let Address::Kafka(address) =
        parse("kafkas://u:p%2F@a:1,b/t.x?group=g&source=s-1&sasl.mechanism=SCRAM-SHA-256").unwrap()
    else {
        panic!("it is of Kafka");
    };
    assert_eq!(
        (&*address.brokers.servers, &*address.topic, &*address.group),
        ("a:1,b", "t.x", "g")
    );
    assert_eq!(address.source.as_deref(), Some("s-1"));
    let login = address.brokers.login.unwrap();
    assert_eq!((&*login.password, &*login.mechanism), ("p/", "SCRAM-SHA-256"));
    let Address::Nats(address) = parse("tls://u:p@a:1,b:2/SCORES?consumer=c&subject=s.>").unwrap()
    else {
        panic!("it is of NATS");
    };
    assert_eq!(address.servers.urls, ["tls://u:p@a:1", "tls://u:p@b:2"]);
    assert_eq!((&*address.stream, &*address.consumer), ("SCORES", "c"));
    assert_eq!(address.subject.as_deref(), Some("s.>"));
}

#[test]
fn another_text_is_refused_without_its_password() {
    for (text, said) in [
        ("amqp://u:cret@h/", "it names no queue"),
        ("amqp://u:cret@h/?queue=q&quue=r", "unknown parameter quue"),
        ("amqps://h/?queue=q&source=s", "expected both for a stream"),
        ("amqps://h/?queue=q&offsets=o", "expected both for a stream"),
        ("amqps://h/?queue=q&source=s&offsets=q", "its queue of offsets"),
        ("amqp://u:cret@h/?queue=q", "LAUREL_ALLOW_CLEARTEXT=true"),
        ("nats://u:cret@localhost,10.0.0.5:4222/S?consumer=c", "expected tls://"),
        ("nats://[2001:db8::1]:4222/S?consumer=c", "LAUREL_ALLOW_CLEARTEXT=true"),
        ("nats://u:cret@h", "it names no stream"),
        ("nats://u:cret@h/?consumer=c", "it names no stream"),
        ("nats://u:cret@h/a.b?consumer=c", "it names no stream"),
        ("nats://u:cret@h/S", "it names no consumer"),
        ("nats://u:cret@h,/S?consumer=c", "it names no host"),
        ("kafka://u:cret@h", "it names no topic"),
        ("kafka://u:cret@h/?group=g", "it names no topic"),
        ("kafka://u:cret@h/^t?group=g", "it names no topic"),
        ("kafka://u:cret@h/t", "it names no group"),
        ("kafka://u:cret@/t?group=g", "it names no host"),
        ("kafka://cret@localhost/t?group=g", "a user without a password"),
        ("kafka://u:cret@h:9092/t?group=g", "expected kafkas://"),
        ("kafka://localhost/t?group=g&sasl.mechanism=PLAIN", "no user"),
        ("kafkas://u:cret@h/t?group=g&sasl.mechanism=GSSAPI", "expected PLAIN"),
        ("kafkas://h/t?group=g&session.timeout.ms=1", "expected 1,000 to"),
        ("kafkas://h/t?group=g&acks=0", "unknown parameter acks"),
        ("kafkas://h/t?group=g&source=a%20b", "its source has no name"),
        ("tls://h/S?consumer=c&source=", "its source has no name"),
        ("u:cret@h", "expected amqp://"),
        ("", "expected amqp://"),
    ] {
        let error = format!("{:#}", parse(text).unwrap_err());
        assert!(error.contains(said), "{text}: {error}");
        assert!(!error.contains("cret"), "{error}");
    }
}

#[test]
fn clear_text_may_stay_on_this_machine_or_be_allowed() {
    for text in [
        "amqp:///?queue=q",
        "nats://localhost:4222,[::1]:4222,127.0.0.2/S?consumer=c",
        "kafka://localhost:9092,[::1]:9092,127.0.0.2/t?group=g",
    ] {
        parse(text).unwrap();
    }
    let allowed = CleartextSettings { allow_cleartext: true };
    for text in ["amqp://h/?queue=q", "nats://h,10.0.0.5:4222/S?consumer=c", "kafka://h/t?group=g"]
    {
        Address::parse(text, &allowed).unwrap();
    }
}

#[test]
fn a_text_may_be_percent_encoded() {
    for (value, said) in
        [("/game/1", "/game/1"), ("%C3%A4%20b", "ä b"), ("100%", "100%"), ("%zz%4", "%zz%4")]
    {
        assert_eq!(decoded(value), said);
    }
}
