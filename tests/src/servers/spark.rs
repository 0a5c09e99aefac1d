//! A cluster of Apache Spark on this machine, where `LAUREL_TEST_SPARK` names a directory with its
//! programs: a master, two workers with a core each, and a server of Spark Connect.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::servers::postgres::send;
use crate::servers::program::signal;
use crate::servers::redis_cluster::free_port;
use crate::wait::until_within;

/// The class of the process in which a worker runs the tasks of an application.
const EXECUTOR: &str = "org.apache.spark.executor.CoarseGrainedExecutorBackend";

/// The longest time that Spark may take to start, or to begin with a fold, on a busy machine.
pub const PATIENCE_WITH_SPARK: Duration = Duration::from_secs(240);

/// A running cluster; it ends when this value is dropped.
pub struct Spark {
    home: String,
    dir: String,
    /// The address of the master.
    master: String,
    connect_port: u16,
    nodes: Vec<Child>,
    connect: Child,
}

impl Spark {
    /// Starts one with its files in a directory; `None`, said, if no programs are named.
    pub async fn start(dir: String) -> Option<Self> {
        let Ok(home) = std::env::var("LAUREL_TEST_SPARK") else {
            println!("not on Spark: make test-spark runs it");
            return None;
        };
        std::fs::create_dir_all(&dir).unwrap();
        let (master_port, connect_port) = (free_port(), free_port());
        let port = master_port.to_string();
        let of_master = ["--host", "127.0.0.1", "--port", &port, "--webui-port", "0"];
        let mut nodes =
            vec![node(&home, &dir, "org.apache.spark.deploy.master.Master", &of_master)];
        listens(master_port).await;
        let master = format!("spark://127.0.0.1:{master_port}");
        for _ in 0..2 {
            let worker = [
                "--host",
                "127.0.0.1",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                "0",
                "--work-dir",
                &dir,
                &master,
            ];
            nodes.push(node(&home, &dir, "org.apache.spark.deploy.worker.Worker", &worker));
        }
        let connect = connect(&home, &dir, &master, connect_port);
        listens(connect_port).await;
        Some(Self { home, dir, master, connect_port, nodes, connect })
    }

    /// The address of the server of Spark Connect.
    pub fn url(&self) -> String {
        format!("sc://127.0.0.1:{}", self.connect_port)
    }

    /// Kills a process that runs tasks without warning.
    pub fn kill_executor(&self) {
        signal("KILL", self.executors().pop().expect("an executor runs"));
    }

    /// The processes that run tasks. Their workers' directories are those in which they run.
    fn executors(&self) -> Vec<u32> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten().filter(|process| {
            let of = process.path();
            let line = std::fs::read(of.join("cmdline")).unwrap_or_default();
            std::fs::read_link(of.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&self.dir))
                && String::from_utf8_lossy(&line).contains(EXECUTOR)
        });
        processes.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect()
    }

    /// Kills the server of Spark Connect without warning.
    pub fn kill_connect(&mut self) {
        let _ = self.connect.kill();
        let _ = self.connect.wait();
    }

    /// Starts the server of Spark Connect again after it was killed.
    pub async fn restart_connect(&mut self) {
        self.connect = connect(&self.home, &self.dir, &self.master, self.connect_port);
        listens(self.connect_port).await;
    }
}

impl Drop for Spark {
    fn drop(&mut self) {
        self.kill_connect();
        // A worker ends its executors.
        for node in self.nodes.iter_mut().rev() {
            send("TERM", &[node.id().to_string()]);
            let _ = node.wait();
        }
    }
}

fn node(home: &str, dir: &str, class: &str, arguments: &[&str]) -> Child {
    let mut command = program(home, dir, "spark-class");
    command.arg(class).args(arguments).spawn().expect("LAUREL_TEST_SPARK has bin/spark-class")
}

fn connect(home: &str, dir: &str, master: &str, port: u16) -> Child {
    let mut command = program(home, dir, "spark-submit");
    command.args(["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]);
    command.args(["--name", "laurel-test", "--master", master, "--driver-memory", "1g"]);
    for setting in [
        "spark.connect.grpc.binding.address=127.0.0.1",
        &format!("spark.connect.grpc.binding.port={port}"),
        "spark.driver.host=127.0.0.1",
        "spark.executor.memory=1g",
        &format!("spark.local.dir={dir}"),
        "spark.sql.shuffle.partitions=4",
        "spark.ui.enabled=false",
    ] {
        command.args(["--conf", setting]);
    }
    command.arg("spark-internal").spawn().expect("LAUREL_TEST_SPARK has bin/spark-submit")
}

fn program(home: &str, dir: &str, name: &str) -> Command {
    let mut command = Command::new(Path::new(home).join("bin").join(name));
    let log = Path::new(dir).join("spark.log");
    let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
    command
        .env("SPARK_HOME", home)
        .env("SPARK_LOCAL_IP", "127.0.0.1")
        // It would listen on a port that it does not choose.
        .env("SPARK_MASTER_OPTS", "-Dspark.master.rest.enabled=false")
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    command
}

async fn listens(port: u16) {
    until_within(PATIENCE_WITH_SPARK, "Spark listens", async || {
        TcpStream::connect(("127.0.0.1", port)).ok().map(drop)
    })
    .await;
}
