//! A RabbitMQ of a test's own: its node name, ports, cookie, data and log are in a temporary
//! directory, and all of it listens on 127.0.0.1 alone.

use std::ffi::OsStr;
use std::path::Path;

use crate::servers::redis_cluster::free_port;
use crate::servers::watchdog::Watchdog;

/// Starts the broker, and kills it when standard input closes. $1 directory, $2 port for clients,
/// $3 port for nodes, $4 port of Erlang's port mapper. Debian's wrapper in the path gives up the
/// environment, so its program is called where it lies.
const SCRIPT: &str = r#"
dir=$1 port=$2 nodes=$3 mapper=$4
export HOME="$dir" ERL_EPMD_PORT="$mapper" ERL_EPMD_ADDRESS=127.0.0.1
export RABBITMQ_NODENAME="laurel$port@localhost" RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$port"
export RABBITMQ_DIST_PORT="$nodes" RABBITMQ_MNESIA_BASE="$dir/data" RABBITMQ_LOG_BASE="$dir/log"
export RABBITMQ_ENABLED_PLUGINS_FILE="$dir/plugins" RABBITMQ_CONFIG_FILE="$dir/rabbitmq" RABBITMQ_PID_FILE="$dir/pid"
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1} +S 1:1'
program=/usr/lib/rabbitmq/bin/rabbitmq-server
[ -x "$program" ] || program=rabbitmq-server
kill_broker() { kill -KILL "-$broker" 2>/dev/null; wait "$broker" 2>/dev/null; }
end() {
    kill_broker
    kill -KILL "$names" 2>/dev/null
    cd /; rm -rf "$dir"
}
trap end EXIT
cd "$dir"
echo '[].' >"$dir/plugins"
printf 'loopback_users.guest = true\ndisk_free_limit.absolute = 50MB\nlog.console = false\n' >"$dir/rabbitmq.conf"
epmd -address 127.0.0.1 -port "$mapper" </dev/null >/dev/null 2>&1 &
names=$!
start() { setsid "$program" </dev/null >>"$dir/out" 2>&1 & broker=$!; }
start
echo ready
while read -r command; do
    case $command in
    kill) kill_broker ;;
    start) start ;;
    esac
    echo ready
done
"#;

/// A running broker; it stops when this value is dropped.
pub struct RabbitMq {
    port: u16,
    watchdog: Watchdog,
}

impl RabbitMq {
    /// Starts one in a new directory. It answers some seconds later.
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("laurel-rabbitmq-").tempdir().unwrap().keep();
        let ports = [free_port(), free_port(), free_port()];
        let [port, nodes, mapper] = ports.map(|port| port.to_string());
        let arguments: [&OsStr; 4] =
            [Path::new(&dir).as_os_str(), port.as_ref(), nodes.as_ref(), mapper.as_ref()];
        Self { port: ports[0], watchdog: Watchdog::start(SCRIPT, &arguments) }
    }

    /// Its address, without a virtual host.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}", self.port)
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        self.watchdog.tell("kill");
    }

    /// Starts it again after it was killed.
    pub fn restart(&mut self) {
        self.watchdog.tell("start");
    }
}
