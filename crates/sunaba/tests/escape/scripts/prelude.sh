# What every attempt written for the shell begins with. The words are put together when they are
# printed, so that an error message that quotes a script is never taken for a success.
through() { printf 'GOT-%s\n' THROUGH; }
absent() { printf 'NOT-%s %s\n' HERE "$*"; exit 0; }
# api METHOD PATH [curl's options]: asks the server; the status is in $status, the answer in ./answer.
api() {
    local method=$1 path=$2
    shift 2
    status=$(curl -sS --noproxy '*' --max-time 10 -o answer -w '%{http_code}' -X "$method" \
        -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' "$@" "$BASE$path")
    echo "$method $path: $status $(head -c 200 answer)"
}
# The same, and a success is what the server answers with 2xx.
api_through() {
    api "$@"
    case $status in 2??) through ;; esac
}
