package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reprieve-dev/reprieve/internal/openb"
	"github.com/reprieve-dev/reprieve/internal/simulation"
)

const (
	// podLists is the pattern of the file names of pod lists in a trace.
	podLists = "openb_pod_list_*.csv"
	// sameWork is the start of the names of some pod lists. These lists differ from another list
	// only in the GPU models of pods. A simulation ignores GPU models, so the table omits these
	// lists.
	sameWork = "openb_pod_list_gpuspec"
	// saves is the interval between checkpoints of work, in the variants with checkpoints.
	saves = 30 * time.Minute
)

// sample selects the part of a trace that the table simulates. With every = 10, it is one of ten
// pods or gangs. nodes is the number of nodes. For each of the fields, 0 selects all. The seed of a
// simulation decides which pods or gangs are selected.
type sample struct{ every, nodes int }

// variant is one way to simulate a cell: a policy, and the interval between checkpoints of the
// work; 0 for no checkpoints. salt seeds the random choices of the simulation: how long pods
// terminate, and which of equal nodes is first.
type variant struct {
	name, policy string
	checkpoint   time.Duration
	salt         uint64
	// exact is true if lost work counts by the second and without a cost for each pod.
	exact bool
}

// yardstick is the name of the policy that other policies are compared with.
const yardstick = "kube-scheduler"

// defaultOrder is the name of the variant with the default order of victims.
const defaultOrder = "default"

// variants returns the variants of the table, the yardstick first.
func variants() []variant {
	return []variant{
		{name: yardstick, policy: yardstick},
		{name: "kube-scheduler again", policy: yardstick, salt: 1000},
		{name: "document", policy: "priority"},
		{name: defaultOrder, policy: "lost-work"},
		{name: "by the second", policy: "lost-work", exact: true},
		{name: "bands", policy: "bands-of-three"},
		{name: "kube-scheduler, checkpoints", policy: yardstick, checkpoint: saves},
		{name: "default, checkpoints", policy: "lost-work", checkpoint: saves},
		{name: "bands, checkpoints", policy: "bands-of-three", checkpoint: saves},
	}
}

// shapes returns the shapes of work by name. The value is the longest pause between the pods of a
// gang; 0 if all pods are single.
func shapes() map[string]time.Duration {
	return map[string]time.Duration{"single pods": 0, "gangs": time.Minute}
}

// cell is one simulation input, with the results of each variant: a pod list, a shape of work and a
// seed.
type cell struct {
	list, shape string
	seed        int
	results     []*simulation.Result
}

// writeLists simulates a sample of every pod list in the trace with every seed. It writes the table
// of lost GPU-hours to the page.
func (r *run) writeLists(ctx context.Context, seeds int) error {
	all, err := filepath.Glob(filepath.Join(r.trace, podLists))
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("-lists needs a list of pods in -trace")
	}
	var lists []string
	for _, list := range all {
		hasQoS, err := hasColumn(list, "qos")
		if err != nil {
			return err
		}
		if hasQoS && !strings.HasPrefix(filepath.Base(list), sameWork) {
			lists = append(lists, list)
		}
	}
	cells, err := r.playLists(ctx, lists, seeds)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(r.doc)
	if err != nil {
		return err
	}
	page, err := listsBlock().put(string(old), r.listsText(cells, len(lists), len(all), seeds))
	if err != nil {
		return fmt.Errorf("%s: %w", r.doc, err)
	}
	return r.put(r.doc, []byte(page))
}

// playLists simulates all cells. The number of concurrent simulations is the number of processors.
func (r *run) playLists(ctx context.Context, lists []string, seeds int) ([]*cell, error) {
	var cells []*cell
	plays, ctx := errgroup.WithContext(ctx)
	plays.SetLimit(runtime.GOMAXPROCS(0))
	for seed := 1; seed <= seeds; seed++ {
		for _, list := range lists {
			trace, err := r.readList(list)
			if err != nil {
				return nil, err
			}
			for _, shape := range slices.Sorted(maps.Keys(shapes())) {
				name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(list), "openb_pod_list_"), ".csv")
				c := &cell{list: name, shape: shape, seed: seed}
				cells = append(cells, c)
				plays.Go(func() error { return c.play(ctx, trace, r.sample.every) })
			}
		}
	}
	return cells, plays.Wait()
}

// readList reads the nodes of the trace and a list of pods. It drops the nodes that are not in the
// sample.
func (r *run) readList(list string) (*openb.Trace, error) {
	nodes, err := os.Open(filepath.Join(r.trace, openb.NodeList))
	if err != nil {
		return nil, err
	}
	defer func() { _ = nodes.Close() }()
	pods, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	defer func() { _ = pods.Close() }()
	trace, err := openb.Read(nodes, pods)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	trace.Thin(r.sample.nodes)
	return trace, nil
}

// play simulates a cell with every variant.
func (c *cell) play(ctx context.Context, trace *openb.Trace, every int) error {
	const day = 24 * time.Hour
	in := trace.Input(openb.Shape{
		Seed: uint64(c.seed), Start: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC), Span: day, Load: 1, Together: shapes()[c.shape], Every: every,
	})
	known := simulation.NamedPolicies()
	var line strings.Builder
	for _, v := range variants() {
		policy := known[slices.IndexFunc(known, func(p simulation.Policy) bool { return p.Name == v.policy })]
		if v.exact {
			policy.Step, policy.PodCost = 0, 0
		}
		opts := simulation.Options{Seed: uint64(c.seed) + v.salt, Lasts: day, Checkpoint: v.checkpoint, Grace: 30 * time.Second}
		result, err := simulation.Run(ctx, in, policy, opts)
		if err != nil {
			return fmt.Errorf("%s of %s, seed %d: %w", c.shape, c.list, c.seed, err)
		}
		c.results = append(c.results, result)
		fmt.Fprintf(&line, " %s %.1f", v.name, result.GPUHours.Lost)
	}
	fmt.Fprintf(os.Stderr, "%s, %s, seed %d:%s\n", c.list, c.shape, c.seed, line.String())
	return nil
}

// hasColumn reports whether a pod list has a column. The first line of the list names the columns.
func hasColumn(list, column string) (bool, error) {
	f, err := os.Open(list)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	columns, err := csv.NewReader(f).Read()
	if err != nil {
		return false, fmt.Errorf("read the first line of %s: %w", list, err)
	}
	return slices.Contains(columns, column), nil
}
