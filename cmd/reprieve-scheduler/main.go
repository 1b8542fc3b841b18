// Command reprieve-scheduler is a kube-scheduler with Reprieve's plugins and controllers.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // Makes --logging-format=json known.
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // Shows calls to the API server and leader election.
	_ "k8s.io/component-base/metrics/prometheus/version"  // Shows the version.

	"github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
)

func main() {
	if err := cli.RunNoErrOutput(app.NewCommand()); err != nil {
		fmt.Fprintln(os.Stderr, "reprieve-scheduler:", app.OneLine(err))
		os.Exit(1)
	}
}
