using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    ( name = "app",
      worker = (
        modules = [ (name = "worker", esModule = embed "worker.bundled.js") ],
        compatibilityDate = "2025-09-01",
        compatibilityFlags = [ "nodejs_compat" ],
        bindings = [
          (name = "ENDPOINT", fromEnvironment = "ENDPOINT"),
          (name = "SECRET", fromEnvironment = "SECRET"),
        ],
        globalOutbound = "everywhere",
      ),
    ),
    (name = "everywhere", network = (allow = [ "local", "private", "public" ])),
  ],
  sockets = [ (name = "http", http = (), service = "app") ],
);
