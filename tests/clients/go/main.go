// A static consumer of franz-go, the Go client: BOOTSTRAP GROUP TOPIC INSTANCE_ID.
//
// It prints one line for each assignment ("ASSIGNED 0,1") and revocation, commits offset 7 for what it was
// given when it reads a line "commit", prints "COMMITTED", and ends without leaving when its input ends.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func tell(what string, topic string, given map[string][]int32) {
	partitions := given[topic]
	slices.Sort(partitions)
	names := make([]string, len(partitions))
	for i, p := range partitions {
		names[i] = fmt.Sprint(p)
	}
	fmt.Println(what, strings.Join(names, ","))
}

func main() {
	topic := os.Args[3]
	var owned []int32
	var lock sync.Mutex
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.ConsumerGroup(os.Args[2]),
		kgo.ConsumeTopics(topic),
		kgo.InstanceID(os.Args[4]),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(5*time.Minute),
		kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			lock.Lock()
			owned = append(owned, given[topic]...)
			lock.Unlock()
			tell("ASSIGNED", topic, given)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
			lock.Lock()
			owned = slices.DeleteFunc(owned, func(p int32) bool { return slices.Contains(taken[topic], p) })
			lock.Unlock()
			tell("REVOKED", topic, taken)
		}),
	)
	if err != nil {
		fmt.Println("ERROR", err)
		os.Exit(1)
	}
	go func() {
		for {
			for _, failed := range client.PollFetches(context.Background()).Errors() {
				fmt.Println("ERROR", failed.Err)
			}
		}
	}()
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		offsets := map[int32]kgo.EpochOffset{}
		lock.Lock()
		for _, p := range owned {
			offsets[p] = kgo.EpochOffset{Epoch: -1, Offset: 7}
		}
		lock.Unlock()
		client.CommitOffsetsSync(context.Background(), map[string]map[int32]kgo.EpochOffset{topic: offsets}, nil)
		fmt.Println("COMMITTED")
	}
}
