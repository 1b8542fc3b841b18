package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fragmentation"
)

// page is the path of the page that the command writes.
const page = "../../docs/results/yardsticks.md"

// TestPageHasRows checks that the page has the block of each row.
func TestPageHasRows(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows() {
		got, err := replaced(string(raw), row.name, "the text")
		if err != nil {
			t.Errorf("row %s: %v", row.name, err)
		}
		if !strings.Contains(got, "\n\nthe text\n\n<!-- the row "+row.name) {
			t.Errorf("row %s: the text is not in its block", row.name)
		}
	}
}

// TestPeersRow checks that the committed page has the current results of the row peers. These
// results do not depend on the machine.
func TestPeersRow(t *testing.T) {
	t.Parallel()
	doc := filepath.Join(t.TempDir(), "page.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(doc, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	var progress bytes.Buffer
	r := run{doc: doc, out: &progress, progress: &progress}
	if err := r.write(t.Context(), "peers"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, raw) {
		t.Errorf("%s is not what make yardsticks ROWS=peers writes", page)
	}
}

// TestChosen checks that chosen selects rows by name.
func TestChosen(t *testing.T) {
	t.Parallel()
	if got, err := chosen(""); err != nil || len(got) != len(rows()) {
		t.Errorf("all rows are %d, %v; want %d", len(got), err, len(rows()))
	}
	if got, err := chosen("scale, peers"); err != nil || len(got) != 2 || got[0].name != "scale" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := chosen("speed"); !errors.Is(err, errRow) {
		t.Errorf("error is %v, want %v", err, errRow)
	}
}

// TestFilling checks that fill places pods on the nodes that the chooser selects, and drops pods
// that fit on no node.
func TestFilling(t *testing.T) {
	t.Parallel()
	f := &filling{
		nodes: []core.Amounts{{8000, 64, 4000}, {4000, 64, 2000}}, total: 6000,
		pods: []core.Amounts{{1000, 1, 2000}, {1000, 1, 4000}},
	}
	// The small node is the best fit for the small pod. So the large node has room for the large
	// pod.
	if got := f.fill(f.pods, f.leastLeft); got.allocated != 100 || got.fragmented != 0 {
		t.Errorf("best fit allocates %.1f %%, want 100 %%", got.allocated)
	}
	first := func(_ []core.Amounts, fitting []int, _ core.Amounts) int { return fitting[0] }
	// This chooser places the small pod on the large node. Then each node has two free GPUs, and
	// the large pod finds no room.
	if got := f.fill(f.pods, first); got.allocated < 33 || got.allocated > 34 || got.fragmented < 33 || got.fragmented > 34 {
		t.Errorf("the first node allocates %.1f %% and leaves %.1f %% fragmented, want a third each", got.allocated, got.fragmented)
	}
	for _, mix := range []*fragmentation.Mix{nil, f.criterion()} {
		if got, err := f.byCore(f.pods, mix); err != nil || got.allocated != 100 {
			t.Errorf("the core allocates %.1f %%, %v; want 100 %%", got.allocated, err)
		}
	}
	sum := int64(0)
	for _, pod := range f.arrivals(rand.New(rand.NewPCG(1, 1))) {
		sum += pod[gpus]
	}
	if sum < f.total {
		t.Errorf("arrivals request %d of %d", sum, f.total)
	}
}

// TestKAILine checks that a table row shows the published time only if the number of nodes is
// kaiNodes.
func TestKAILine(t *testing.T) {
	t.Parallel()
	for nodes, want := range map[int]string{
		kaiNodes: "| 4000 jobs of one GPU fill the cluster | 397.8 s | 10.00 s | 39.8× |",
		10:       "| 80 jobs of one GPU fill the cluster | – | 10.00 s | – |",
	} {
		if got := kaiLine(&kaiTests(nodes)[0], nodes, 10*time.Second); got != want {
			t.Errorf("%d nodes: got %q, want %q", nodes, got, want)
		}
	}
}

// TestGenerated checks that decisions on a generated cluster evict victims, with queues and without
// queues.
func TestGenerated(t *testing.T) {
	t.Parallel()
	for _, queues := range []int{0, leaves} {
		g, err := generate(200, queues)
		if err != nil {
			t.Fatal(err)
		}
		times, err := g.decide(g.pod(), 2)
		if err != nil || len(times) != 2 {
			t.Errorf("%d queues: %d times, %v", queues, len(times), err)
		}
	}
}

// TestCycles checks that scheduling cycles place a pod, preempt for a pod, and preempt for a gang.
func TestCycles(t *testing.T) {
	t.Parallel()
	got, err := timeCycles(t.Context(), 200, cycles{pods: 2, gangs: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.free) != 2 || len(got.pods) != 2 || len(got.gangs) != 2 || got.start < got.load {
		t.Errorf("got %+v", got)
	}
}
