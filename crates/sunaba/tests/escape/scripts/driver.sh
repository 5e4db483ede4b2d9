# Makes every attempt of a directory, one after the other, each in an empty directory of its own,
# and tells of each in one line: RESULT, its name, what it wrote (the end of it, in base64).
# Nothing is ever removed here: an attempt may have mounted something into its directory.
# WRAP is what each attempt is started with, where one must not see what another did.
LIB=$1 SIDE=$2
export LIB SIDE
# An attempt that fails for want of a program proves nothing.
for tool in python3 git curl timeout tail base64 mktemp mount umount unshare nsenter chroot ip su find; do
    type "$tool" >/dev/null 2>&1 || { echo "MISSING $tool"; exit 1; }
done
for file in "$LIB"/"$3"/*; do
    name=${file##*/}
    scratch=$(mktemp -d)
    case $name in
        *.py) run=(/usr/bin/python3 -c "import os; exec(open(os.environ['LIB'] + '/prelude.py').read() + open('$file').read())") ;;
        *) run=(bash -c '. "$LIB/prelude.sh"; . "$0"' "$file") ;;
    esac
    output=$(cd "$scratch" && $WRAP timeout -k 1 15 "${run[@]}" 2>&1 </dev/null | tail -c 900 | base64 -w0)
    echo "RESULT ${name%.*} $output"
done
echo "FINISHED $3"
