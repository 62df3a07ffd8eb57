# Prints the newest Python of 3.14 … 3.10 that starts here, else python3. A name on PATH may be a stub that fails: each is tried.
for version in 3.14 3.13 3.12 3.11 3.10; do
    if "python$version" -c '' 2>/dev/null; then
        echo "python$version"
        exit 0
    fi
done
echo python3
