# What is looked for is given in hexadecimal, so that a search never finds itself.
needles = [bytes.fromhex(needle) for needle in os.environ["NEEDLES"].split(",")]


def search(path, most=64 << 20):
    try:
        with open(path, "rb") as file:
            seen, last = 0, b""
            while seen < most:
                piece = file.read(1 << 20)
                if not piece:
                    return
                seen += len(piece)
                for number, needle in enumerate(needles):
                    if needle in last + piece:
                        print("needle", number, "in", path, flush=True)
                        through()
                        return
                last = piece[-100:]
    except OSError:
        pass


def visible():
    """Every process but this one; outside, only those that the search is meant for."""
    pids = [name for name in os.listdir("/proc") if name.isdigit() and name != str(os.getpid())]
    return os.environ.get("SEARCH_PIDS", "").split() or pids


