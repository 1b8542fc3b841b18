package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Patch patches the status of the pod with the UID. status maps the names of status fields to
// values; a nil value removes a field. Conditions are merged by type. If another pod has the name
// now, the error satisfies [IsAnotherPod].
func Patch(
	ctx context.Context, pods kubernetes.Interface, namespace, name string, uid types.UID, status map[string]any, options metav1.PatchOptions,
) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": status})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = pods.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, options, "status")
	return err
}

// IsAnotherPod reports whether a Patch failed because another pod has the name now. The API server
// detects that by the UID in the patch.
func IsAnotherPod(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}

// IsRefused reports whether the API server has answered that it rejects a call, so that the call
// changed nothing. It returns false for a call without an answer and for an error inside the
// server. Such a call may have changed the pod.
func IsRefused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}
