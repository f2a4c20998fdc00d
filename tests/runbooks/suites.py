"""Which runbooks `make test` rehearses, and why each other one waits for `make test-full`.

tests/unit/test_runbooks.py holds this list to the pages in docs/runbooks/.
"""

# In `make test`: what needs neither another cluster nor another build.
QUICK = ["select-pods", "models", "operator-down"]
# Why each of the others waits for `make test-full`. The last ones end with the stack down.
SLOW = {
    "change-the-training": "two trainings and a review",
    "stuck-job": "seven jobs that get stuck, each mended and run to its end",
    "drift": "two repairs, as tests/e2e/test_changed_by_hand.py makes",
    "rotate-passphrase": "two stacks, and every secret written anew",
    "remove-a-job": "two trainings of half a minute",
    "watch-a-run": "a training of half a minute",
    "released-volume": "takes the volume's claim away twice",
    "backends": "a backend of its own, and a wait for a colleague's lock",
    "interrupted-up": "two interrupted trainings, and the stack made anew",
    "upgrade": "builds another version of the operator",
    "lost-state": "every object adopted, with the API server away meanwhile",
    "cluster-gone": "makes the cluster anew",
    "another-cluster": "makes a second cluster",
    "tear-down": "makes the cluster anew",
    "upgrade-kubernetes": "builds another version of Kubernetes",
}
# With a set-up of their own.
FIRST, SMALL_DISK = "first-deployment", "disk-full"
