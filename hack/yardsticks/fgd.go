package main

import (
	"context"
	"embed"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/openb"
)

//go:embed testdata/fgd.csv
var published embed.FS

const (
	// milliPerGPU is the number of units per GPU: lists give shares of GPUs in thousandths.
	milliPerGPU = 1000
	// wholeOfTotal is the ratio of the GPUs that arriving pods request to all GPUs of the cluster,
	// at the time of the measurement.
	wholeOfTotal = 1.0
)

// publication is a line of the results that the authors of FGD published. Each policy has two
// fields, in percent of all GPUs: the allocated GPUs, and the fragmented GPUs.
type publication struct{ random, bestFit, fgd, randomFragmented, bestFitFragmented, fgdFragmented string }

// publications returns the published results by the name of the pod list.
func publications() (map[string]publication, error) {
	f, err := published.Open("testdata/fgd.csv")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	out := make(map[string]publication)
	for _, l := range lines[1:] {
		out[l[0]] = publication{l[1], l[2], l[3], l[4], l[5], l[6]}
	}
	return out, nil
}

// errTrace is returned if the flag -trace is missing.
var errTrace = errors.New("the row needs a directory of lists: -trace DIR, or TRACE=DIR for make")

// fgdText simulates each pod list in the directory of the trace. It returns tables that compare
// allocation and fragmentation with the published results.
func fgdText(ctx context.Context, r *run) (string, error) {
	theirs, err := publications()
	if err != nil {
		return "", err
	}
	lists, err := filepath.Glob(filepath.Join(r.trace, "openb_pod_list_*.csv"))
	if err != nil {
		return "", err
	}
	if r.trace == "" || len(lists) == 0 {
		return "", errTrace
	}
	t := &fgdTables{behind: make(map[string]float64)}
	for _, list := range lists {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(list), "openb_pod_list_"), ".csv")
		f, err := newFilling(filepath.Join(r.trace, openb.NodeList), list)
		if err != nil {
			return "", err
		}
		if f.gpuPods == 0 || f.models > 0 {
			t.unsupported = append(t.unsupported, name)
			continue
		}
		pub, ok := theirs[name]
		if !ok {
			pub = publication{"–", "–", "–", "–", "–", "–"}
		}
		means, err := f.means(ctx, r, name)
		if err != nil {
			return "", err
		}
		t.add(name, f, &pub, means)
	}
	return t.text(r.seeds), nil
}

// fgdTables has the two tables of the row fgd.
type fgdTables struct {
	allocated, fragmented strings.Builder
	// lists is the number of pod lists in the tables. behind has the pod lists where Reprieve with
	// its fragmentation criterion allocates less than best fit. It maps each such list to the
	// difference in percent of all GPUs, which is negative.
	lists       int
	behind      map[string]float64
	unsupported []string
}

// add adds the results of a pod list to both tables.
func (t *fgdTables) add(name string, f *filling, pub *publication, m *means) {
	t.lists++
	difference := m.on.allocated - m.bestFit.allocated
	if difference < 0 {
		t.behind[name] = difference
	}
	fmt.Fprintf(&t.allocated, "| %s | %s %% | %s %% | %s %% | %d of %d | %.2f %% | %.2f %% | %.2f %% | %.2f %% | %+.2f |\n",
		name, pub.fgd, pub.bestFit, pub.random, f.shares, f.shares+len(f.pods),
		m.bestFit.allocated, m.random.allocated, m.off.allocated, m.on.allocated, difference)
	fmt.Fprintf(&t.fragmented, "| %s | %s %% | %s %% | %s %% | %.2f %% | %.2f %% | %.2f %% | %.2f %% |\n",
		name, pub.fgdFragmented, pub.bestFitFragmented, pub.randomFragmented,
		m.bestFit.fragmented, m.random.fragmented, m.off.fragmented, m.on.fragmented)
}

// text returns the text of the row fgd with both tables.
func (t *fgdTables) text(seeds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Means of %d orders of arrival. GPUs that pods have, as a part of all GPUs:\n\n", seeds)
	b.WriteString("| List | FGD, published | BestFit, published | Random, published | Pods left out: shares of a GPU | " +
		"Best fit, here | Random, here | Reprieve, criterion off | Reprieve, criterion on | On − best fit, here |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n" + t.allocated.String())
	b.WriteString("\nFree GPUs that the next pod of the list cannot use, as a part of all GPUs:\n\n" +
		"| List | FGD, published | BestFit, published | Random, published | " +
		"Best fit, here | Random, here | Reprieve, criterion off | Reprieve, criterion on |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n" + t.fragmented.String())
	fmt.Fprintf(&b, "\nWith the criterion, the allocation is at least best fit's on %d of %d lists.\n", t.lists-len(t.behind), t.lists)
	for _, name := range slices.Sorted(maps.Keys(t.behind)) {
		fmt.Fprintf(&b, "Missed: %s, by %.2f points.\n", name, -t.behind[name])
	}
	if len(t.unsupported) > 0 {
		fmt.Fprintf(&b, "\nNot supported, because all pods share GPUs or name a model of GPU:\n%s.\n", strings.Join(t.unsupported, ", "))
	}
	return strings.ReplaceAll(b.String(), "– %", "–")
}

// filling is a simulation that places pods on nodes, until the pods have requested as many GPUs as
// the cluster has. Placed pods never end.
type filling struct {
	nodes []core.Amounts
	pods  []core.Amounts
	// total is the number of GPUs in thousandths. These fields count pods of the list:
	//
	//   - gpuPods: pods that request whole GPUs
	//   - models: pods that name a GPU model
	//   - shares: pods that request a part of a GPU; they are not in the field pods
	total                   int64
	gpuPods, shares, models int
}

// cpus and gpus are the indexes of CPUs and GPUs in core.Amounts. Index 1 is for memory.
const cpus, gpus = 0, 2

// newFilling reads a list of nodes and a list of pods. It does not use package openb, which cannot
// read lists without the columns for times and QoS.
func newFilling(nodes, pods string) (*filling, error) {
	f := &filling{}
	err := eachLine(nodes, func(l *line) {
		n := core.Amounts{l.number("cpu_milli"), l.number("memory_mib"), milliPerGPU * l.number("gpu")}
		f.nodes = append(f.nodes, n)
		f.total += n[gpus]
	})
	if err != nil {
		return nil, err
	}
	err = eachLine(pods, func(l *line) {
		want := l.number("num_gpu")
		switch {
		case want > 0 && l.number("gpu_milli") < milliPerGPU:
			f.shares++
			return
		case want > 0:
			f.gpuPods++
		}
		if l.of["gpu_spec"] != "" {
			f.models++
		}
		f.pods = append(f.pods, core.Amounts{l.number("cpu_milli"), l.number("memory_mib"), milliPerGPU * want})
	})
	return f, err
}

// line is a line of a CSV file. The field of maps the name of a column to the value in this line.
type line struct {
	of  map[string]string
	err error
}

// number parses the value of a column as an integer. If it fails, it sets l.err, unless an earlier
// call has set it.
func (l *line) number(column string) int64 {
	n, err := strconv.ParseInt(l.of[column], 10, 64)
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("column %s: %w", column, err)
	}
	return n
}

// eachLine calls do for each line of a CSV file. The first line names the columns.
func eachLine(name string, do func(*line)) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil || len(lines) == 0 {
		return fmt.Errorf("read %s: %d lines: %w", name, len(lines), err)
	}
	for at, fields := range lines[1:] {
		l := &line{of: make(map[string]string, len(fields))}
		for i, field := range fields {
			l.of[lines[0][i]] = field
		}
		if do(l); l.err != nil {
			return fmt.Errorf("read %s, line %d: %w", name, at+2, l.err)
		}
	}
	return nil
}

// arrivals returns pods in a random order, until their requests reach wholeOfTotal of all GPUs. If
// the pods of the list are not enough, arrivals adds randomly chosen pods of the list.
func (f *filling) arrivals(random *rand.Rand) []core.Amounts {
	order, sum := random.Perm(len(f.pods)), int64(0)
	var out []core.Amounts
	for i := 0; float64(sum) < wholeOfTotal*float64(f.total); i++ {
		at := random.IntN(len(f.pods))
		if i < len(order) {
			at = order[i]
		}
		out = append(out, f.pods[at])
		sum += f.pods[at][gpus]
	}
	return out
}

// means has the mean results of each policy over several orders of arrival. off is Reprieve without
// its fragmentation criterion, and on is Reprieve with it.
type means struct{ bestFit, random, off, on filled }

// means runs the simulation with several orders of arrival. It returns the mean results of each
// policy.
func (f *filling) means(ctx context.Context, r *run, name string) (*means, error) {
	var sum means
	mix := f.criterion()
	for seed := range r.seeds {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		pods := f.arrivals(rand.New(rand.NewPCG(uint64(seed+1), 11)))
		off, err := f.byCore(pods, nil)
		if err != nil {
			return nil, err
		}
		on, err := f.byCore(pods, mix)
		if err != nil {
			return nil, err
		}
		draw := rand.New(rand.NewPCG(uint64(seed+1), 13))
		fit := f.fill(pods, f.leastLeft)
		drawn := f.fill(pods, func(_ []core.Amounts, fitting []int, _ core.Amounts) int { return fitting[draw.IntN(len(fitting))] })
		fmt.Fprintf(r.progress, "%s, order %d: criterion off %.2f, on %.2f, best fit %.2f, random %.2f\n",
			name, seed+1, off.allocated, on.allocated, fit.allocated, drawn.allocated)
		part := 1 / float64(r.seeds)
		sum.off.add(off, part)
		sum.on.add(on, part)
		sum.bestFit.add(fit, part)
		sum.random.add(drawn, part)
	}
	return &sum, nil
}

// add adds the values of o to x, each multiplied by part.
func (x *filled) add(o filled, part float64) {
	x.allocated += part * o.allocated
	x.fragmented += part * o.fragmented
}
