package v1alpha1_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/config/v1alpha1"
)

// Decode the args of an entry in pluginConfig, as the scheduler passes them to the plugin.
func ExampleDecode() {
	args, err := v1alpha1.Decode(&runtime.Unknown{Raw: []byte(`
apiVersion: config.reprieve.dev/v1alpha1
kind: ReprieveArgs
preemptMinRuntime: 10m
gang:
  permitTimeout: 30s
`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("given:", args.PreemptMinRuntime.Duration, args.Gang.PermitTimeout.Duration)
	fmt.Println("filled in:", args.Gang.SettleTime.Duration, *args.WorkloadAware)
	// Output:
	// given: 10m0s 30s
	// filled in: 100ms true
}

// The error names the field that has the mistake.
func ExampleDecode_mistakes() {
	for _, raw := range []string{"gang: {timeout: 30s}", "gang: {permitTimeout: '30'}", "gang: {permitTimeout: 48h}"} {
		_, err := v1alpha1.Decode(&runtime.Unknown{Raw: []byte(raw)})
		fmt.Println(err)
	}
	// Output:
	// args: unknown field "gang.timeout"
	// args: gang.permitTimeout: time: missing unit in duration "30"
	// args: gang.permitTimeout: Invalid value: "48h0m0s": must be between 1s and 15m0s
}

// A program that builds arguments itself fills in the defaults and validates the result.
func ExampleValidate() {
	args := &v1alpha1.ReprieveArgs{WorkloadAware: ptr.To(false)}
	args.Retry.InitialBackoff = &metav1.Duration{Duration: time.Minute}
	v1alpha1.SetDefaults(args)
	fmt.Println(v1alpha1.Validate(args))
	args.Retry.MaxBackoff = &metav1.Duration{Duration: 5 * time.Minute}
	fmt.Println(len(v1alpha1.Validate(args)))
	// Output:
	// [retry.maxBackoff: Invalid value: "30s": must not be less than initialBackoff, 1m0s]
	// 0
}
