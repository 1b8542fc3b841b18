package throughput

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/reprieve-dev/reprieve/internal/metrics"
)

var (
	sides      = flag.String("sides", "upstream,reprieve", "the sides to run, in this order")
	profileDir = flag.String("measured-cpuprofile-dir", "",
		"directory for a CPU profile of each workload, from the creation of the first measured pod until the last one has its node")
)

func TestMain(m *testing.M) {
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctrl.SetLogger(klog.Background())
	m.Run()
}

// BenchmarkPerfScheduling runs the workloads that the flag -perf-scheduling-label-filter selects.
// The flag -sides selects the sides, which run one after the other. For the side "calls", the
// filter must have one workload and one size. The benchmark needs -test.benchtime=1x, and etcd in
// PATH.
func BenchmarkPerfScheduling(b *testing.B) {
	selected := perf.PerfSchedulingLabelFilter
	ours := &assembly{metrics: metrics.New()}
	if err := ours.metrics.Register(legacyregistry.Register); err != nil {
		b.Fatal(err)
	}
	watches := stopwatches{profileDir: *profileDir, outDir: flag.Lookup("data-items-dir").Value.String()}
	row, size, _ := strings.Cut(selected, ",")
	for side := range strings.SplitSeq(*sides, ",") {
		b.Run(side, func(b *testing.B) {
			if side == callsAlone {
				makeCalls(b, row, size, watches.outDir)
				return
			}
			perf.PerfSchedulingLabelFilter = selected + "," + side
			perf.RunBenchmarkPerfScheduling(b, "performance-config.yaml", "throughput",
				ours.registry(),
				perf.WithPreRunFn(watches.expect),
				perf.WithPrepareFn(func(tCtx ktesting.TContext) error {
					if err := ours.start(); err != nil {
						return err
					}
					return watches.start(tCtx)
				}))
		})
	}
}

// makeCalls measures the API calls of a workload without a scheduler.
func makeCalls(b *testing.B, row, size, outDir string) {
	l, ok := loadOf(row, size)
	if !ok {
		b.Fatalf("it is not known which calls %s makes", row)
	}
	name := row + "/" + callsAlone + "/" + size
	if err := write(outDir, name, l.measure(b, name, atATime)); err != nil {
		b.Fatal(err)
	}
}
