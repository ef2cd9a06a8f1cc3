# shellcheck shell=bash
# Sourced by run.sh, coverage.sh, indexes.sh and benches/run.sh: finds or starts the Postgres and the Redis of the tests.
#
# `find_servers` exports DATABASE_URL and REDIS_URL, and REDIS_CLUSTER_URL for a Redis Cluster of three nodes. It uses the servers of these variables,
# otherwise starts private ones on free loopback ports. On exit the script stops these by process id and removes their
# folder. As root on Debian, missing servers are installed.

folder=""
postgres_bin=""
redis_pid=""
cluster_pids=()
apt_updated=no

say() { echo "==> $*"; }

find_servers() {
    case ${DATABASE_URL:-} in
        postgres://* | postgresql://*) say "Postgres: the one that DATABASE_URL names" ;;
        *) start_postgres ;;
    esac
    if [[ -n ${REDIS_URL:-} ]]; then
        say "Redis: the one that REDIS_URL names"
    else
        start_redis
    fi
    find_pooler
    if [[ -n ${REDIS_CLUSTER_URL:-} ]]; then
        say "Redis Cluster: the one that REDIS_CLUSTER_URL names"
    else
        start_cluster
    fi
}

missing() {
    echo "tests: $1 is missing. Install it (Debian: apt install $2; macOS: brew install $3), name a running one in $4, or use run.sh --embedded."
    exit 2
}

# The transcripts in the documents use the real curl.
find_curl() {
    command -v curl >/dev/null || apt_install curl || {
        echo "tests: curl is missing. Install it (Debian: apt install curl; macOS: brew install curl)."
        exit 2
    }
}

# Tests of pages use a real browser, and are skipped with a message without one.
find_browser() {
    if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
        return
    fi
    apt_install chromium chromium-driver || {
        echo "tests: SKIPPED: THE PAGES ARE NOT TRIED IN A BROWSER: chromium and chromedriver are missing (Debian: apt install chromium chromium-driver)."
    }
}

# Tests start PgBouncer themselves, and are skipped with a message without it.
find_pooler() {
    PATH=$PATH:/usr/sbin command -v pgbouncer >/dev/null || apt_install pgbouncer || {
        echo "tests: SKIPPED: NOTHING IS TRIED BEHIND A POOLER: pgbouncer is missing (Debian: apt install pgbouncer)."
    }
}

# Tests of logins by proxy start nginx themselves, and are skipped with a message without it.
find_nginx() {
    PATH=$PATH:/usr/sbin command -v nginx >/dev/null || apt_install nginx-light || {
        echo "tests: SKIPPED: NOTHING IS TRIED BEHIND A PROXY'S LOGIN: nginx is missing (Debian: apt install nginx-light)."
    }
}

# Postgres refuses to run as root, so root runs it as the user `postgres`.
as_postgres() {
    if [[ $(id -u) -ne 0 ]]; then
        "$@"
    else
        (cd / && setpriv --reuid=postgres --regid=postgres --init-groups "$@")
    fi
}

stop_servers() {
    local status=$?
    trap - EXIT
    trap '' INT TERM
    if [[ -n $redis_pid ]]; then
        kill "$redis_pid" 2>/dev/null || true
        wait "$redis_pid" 2>/dev/null || true
    fi
    stop_cluster
    if [[ -n $folder ]]; then
        if [[ -s $folder/postgres/data/postmaster.pid ]]; then
            as_postgres "$postgres_bin/pg_ctl" -D "$folder/postgres/data" -m fast -t 20 -w stop >/dev/null 2>&1 ||
                as_postgres "$postgres_bin/pg_ctl" -D "$folder/postgres/data" -m immediate -w stop >/dev/null 2>&1 || true
        fi
        rm -rf "$folder"
    fi
    exit "$status"
}
trap stop_servers EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

make_folder() {
    [[ -n $folder ]] && return
    local place=${TMPDIR:-/tmp}
    # Root passes a part of it to another user, who can't access a private TMPDIR.
    [[ $(id -u) -ne 0 ]] || place=/tmp
    folder=$(mktemp -d "$place/gavel-tests.XXXXXX")
    chmod 711 "$folder"
}

apt_install() {
    [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null || return 1
    if [[ $apt_updated == no ]]; then
        say "apt-get update"
        apt-get -o DPkg::Lock::Timeout=120 -qq update || return 1
        apt_updated=yes
    fi
    say "apt-get install $*"
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 -qq install -y --no-install-recommends "$@"
}

# Prints the folder of initdb, postgres and pg_ctl; the newest of several.
find_postgres() {
    local places=() place
    if command -v pg_config >/dev/null; then
        places+=("$(pg_config --bindir)")
    fi
    while IFS= read -r place; do
        places+=("$place")
    done < <(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql@*/bin \
        /usr/local/opt/postgresql@*/bin /opt/homebrew/bin /usr/local/bin /usr/bin 2>/dev/null | sort -rV)
    if command -v initdb >/dev/null; then
        places+=("$(dirname "$(command -v initdb)")")
    fi
    for place in ${places[@]+"${places[@]}"}; do
        if [[ -x $place/initdb && -x $place/postgres && -x $place/pg_ctl ]]; then
            echo "$place"
            return 0
        fi
    done
    return 1
}

find_redis() { command -v redis-server || command -v valkey-server; }

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_port() {
    local port
    while true; do
        port=$((20000 + RANDOM % 30000))
        if port_is_free "$port"; then
            echo "$port"
            return
        fi
    done
}

start_postgres() {
    postgres_bin=$(find_postgres) || {
        apt_install postgresql || missing Postgres postgresql postgresql@17 DATABASE_URL
        postgres_bin=$(find_postgres) || missing Postgres postgresql postgresql@17 DATABASE_URL
    }
    if [[ $(id -u) -eq 0 ]] && ! id postgres >/dev/null 2>&1; then
        echo "tests: Postgres doesn't run as root, and there is no user postgres: run the tests as another user, or name a server in DATABASE_URL"
        exit 2
    fi
    make_folder
    local home=$folder/postgres port
    mkdir -m 700 "$home"
    [[ $(id -u) -ne 0 ]] || chown postgres "$home"
    # Trust authentication is safe, because it listens only on loopback and contains only test data.
    as_postgres "$postgres_bin/initdb" -D "$home/data" -U gavel -E UTF8 --no-locale --auth=trust >"$folder/initdb.log" 2>&1 || {
        cat "$folder/initdb.log"
        echo "tests: initdb of $postgres_bin failed"
        exit 2
    }
    for _ in 1 2 3; do
        port=$(free_port)
        if as_postgres "$postgres_bin/pg_ctl" -D "$home/data" -l "$home/log" -w -t 60 \
            -o "-p $port -k '$home' -c listen_addresses=127.0.0.1 -c fsync=on -c max_connections=300 ${postgres_options:-}" start >/dev/null 2>&1; then
            export DATABASE_URL=postgres://gavel@127.0.0.1:$port/postgres
            say "Postgres $("$postgres_bin/postgres" --version | awk '{print $3}') at $DATABASE_URL"
            return
        fi
    done
    cat "$home/log" || true
    echo "tests: Postgres of $postgres_bin didn't start"
    exit 2
}

redis_answers() {
    (
        exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
        printf 'PING\r\n' >&3
        IFS= read -r -t 1 reply <&3
        [[ $reply == +PONG* ]]
    ) 2>/dev/null
}

start_redis() {
    local server port
    server=$(find_redis) || {
        apt_install redis-server || missing Redis redis-server redis REDIS_URL
        server=$(find_redis) || missing Redis redis-server redis REDIS_URL
    }
    make_folder
    mkdir -m 700 "$folder/redis"
    for _ in 1 2 3; do
        port=$(free_port)
        "$server" --port "$port" --bind 127.0.0.1 --dir "$folder/redis" --save '' --appendonly no >"$folder/redis/log" 2>&1 &
        redis_pid=$!
        for _ in {1..100}; do
            if redis_answers "$port"; then
                export REDIS_URL=redis://127.0.0.1:$port
                say "Redis at $REDIS_URL"
                return
            fi
            kill -0 "$redis_pid" 2>/dev/null || break
            sleep 0.1
        done
        kill "$redis_pid" 2>/dev/null || true
        wait "$redis_pid" 2>/dev/null || true
        redis_pid=""
    done
    cat "$folder/redis/log" || true
    echo "tests: Redis of $server didn't start"
    exit 2
}

stop_cluster() {
    local pid
    for pid in ${cluster_pids[@]+"${cluster_pids[@]}"}; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    cluster_pids=()
}

# Without a local redis-server or redis-cli, the cluster tests are skipped with a message.
start_cluster() {
    local server port node nodes=()
    server=$(find_redis) && command -v redis-cli >/dev/null || {
        echo "tests: SKIPPED: NOTHING IS TRIED ON A REDIS CLUSTER: redis-server and redis-cli are missing (Debian: apt install redis)."
        return
    }
    make_folder
    for node in 1 2 3; do
        port=$(free_port)
        # Cluster nodes use a second port for each other.
        until ((port < 55000)) && port_is_free $((port + 10000)); do port=$(free_port); done
        mkdir -m 700 "$folder/cluster-$node"
        "$server" --port "$port" --bind 127.0.0.1 --dir "$folder/cluster-$node" --save '' --appendonly no \
            --cluster-enabled yes --cluster-node-timeout 5000 >"$folder/cluster-$node/log" 2>&1 &
        cluster_pids+=($!)
        nodes+=("127.0.0.1:$port")
        for _ in {1..100}; do
            if redis_answers "$port"; then break; fi
            sleep 0.1
        done
    done
    if redis-cli --cluster create "${nodes[@]}" --cluster-yes >"$folder/cluster.log" 2>&1; then
        REDIS_CLUSTER_URL=redis+cluster://$(IFS=, && echo "${nodes[*]}")
        export REDIS_CLUSTER_URL
        say "Redis Cluster at $REDIS_CLUSTER_URL"
    else
        cat "$folder/cluster.log"
        echo "tests: SKIPPED: NOTHING IS TRIED ON A REDIS CLUSTER: it couldn't be made."
        stop_cluster
    fi
}
