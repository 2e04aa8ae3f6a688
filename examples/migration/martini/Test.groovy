// The service of the package: a Groovy class that Martini exposes as a REST API.
import io.toro.martini.api.APIResponse
import org.springframework.web.bind.annotation.*

@RestController
@RequestMapping(value = 'test', produces = ['application/json', 'application/xml'])
class Test {

    @RequestMapping(value = 'sayHello', method = [RequestMethod.GET])
    APIResponse sayHello() {
        new APIResponse('Hello, world!')
    }

    @RequestMapping(value = 'orders', method = [RequestMethod.POST], consumes = ['application/json'])
    Map order(@RequestBody Map order) {
        def total = order.lines.collect { it.quantity * it.price }.sum()
        [order: order.id, total: total, free: total >= 50]
    }
}
